package main

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// kills is the number of processes that the campaign kills.
const kills = 80

// The client, the producer, the relay and the consumer are killed with SIGKILL at random moments, under faults on both
// ways, while the secret is rotated. At the end both ledgers hold each operation once, as the producer made it and, for
// each payment, in that order.
func TestCampaign(t *testing.T) {
	for _, e := range engines {
		t.Run(e.name, func(t *testing.T) {
			seed := rand.Uint64()
			t.Logf("seed %d", seed)
			s, err := newSystem(t.Context(), e.url(t), &strings.Builder{})
			require.NoError(t, err)
			t.Cleanup(s.close)
			got, err := s.campaign(t.Context(), kills, rand.New(rand.NewPCG(seed, seed)))
			require.NoError(t, err)
			t.Logf("%v; killed %v, verified with %v", got, s.killed, got.verified)
			require.True(t, got.ok(), "%v: %v", got, got.strays)
			for _, name := range append(s.servants(), "client") {
				require.Positive(t, s.killed[name], name)
			}
			require.Positive(t, got.verified[oldSecret], "before the rotation")
			require.Positive(t, got.verified[newSecret], "after it")
		})
	}
}
