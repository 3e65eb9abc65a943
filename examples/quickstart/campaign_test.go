package main

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// kills is how many processes the campaign kills.
const kills = 40

// The client and the service are killed with SIGKILL at random moments, under scripted faults, and started again on
// their files. When the client has at last done all its operations, the ledger holds each exactly once. The seed is
// printed, but the moments are the scheduler's: a run can't be repeated to the letter.
func TestCrashCampaign(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, seed))
	var out strings.Builder
	s := &stage{dir: t.TempDir(), timeline: newTimeline(&out), address: "127.0.0.1:0"}
	require.NoError(t, s.startService())
	t.Cleanup(func() { s.service.kill() })
	require.NoError(t, s.play(scene{part: "pay"}))

	script := func() {
		steps := make([]string, 20)
		for i := range steps {
			steps[i] = []string{faultNone, faultNone, faultLose, fault503}[r.IntN(4)]
		}
		require.NoError(t, s.script(strings.Join(steps, " ")))
	}
	script()
	client, err := s.startClient("campaign")
	require.NoError(t, err)
	t.Cleanup(func() { client.kill() })
	for range kills {
		wait := time.NewTimer(time.Duration(r.IntN(int(60 * time.Millisecond))))
		select {
		case <-wait.C:
		case <-client.ended: // done already, or given up: it starts again
		}
		if r.IntN(2) == 0 {
			s.service.kill()
			require.NoError(t, s.startService())
			script()
			continue
		}
		client.kill()
		client, err = s.startClient("campaign")
		require.NoError(t, err)
	}
	if err := client.wait(); err != nil {
		require.NoError(t, s.play(scene{part: "campaign"}), "after %v", err)
	}
	require.NoError(t, s.play(scene{part: "resume"}), "nothing is left that can't be settled")

	wanted := []string{"payment:order-1138"}
	for i := range campaignSize {
		wanted = append(wanted, campaignName(i))
	}
	entries, err := s.ledger()
	require.NoError(t, err)
	tally := count(wanted, entries)
	s.settle()
	t.Logf("%v; found in the ledger after a crash: %d", tally, strings.Count(out.String(), "finds in its ledger"))
	require.True(t, tally.ok(), "%v\n%s", tally, &out)
}
