package disk

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/internal/racetest"
)

var (
	states = flag.Int("states", 0, "power cuts that TestPowerCut opens at least; 0 is the short form")
	seed   = flag.Uint64("seed", 1, "seed of the first workloads")
)

// A way makes a history.
type way struct {
	name string
	make func(t *testing.T, seed uint64, rounds int) *history
}

var ways = []way{
	{"two processes", func(t *testing.T, seed uint64, rounds int) *history {
		return newHistory(t, seed, 3, rounds).record(t).record(t)
	}},
	{"the first is killed before a sync", func(t *testing.T, seed uint64, rounds int) *history {
		h := newHistory(t, seed, 3, rounds).record(t)
		at := h.syncs(false)
		return h.kill(t, at[rand.New(rand.NewPCG(seed, 2)).IntN(len(at))]).record(t)
	}},
	{"two are killed before the sync of a meta page", func(t *testing.T, seed uint64, rounds int) *history {
		h, r := newHistory(t, seed, 3, rounds), rand.New(rand.NewPCG(seed, 3))
		for range 2 {
			at := h.record(t).syncs(true)
			h.kill(t, at[r.IntN(len(at))])
		}
		return h.record(t)
	}},
	{"a sync of the first fails", func(t *testing.T, seed uint64, rounds int) *history {
		when := 1 + rand.New(rand.NewPCG(seed, 4)).IntN(8)
		in := Injection(fmt.Sprintf("fdatasync:error=EIO:when=%d", when))
		return newHistory(t, seed, 3, rounds).record(t, in).record(t)
	}},
}

// After a power cut at any moment the store opens and has all that it acknowledged.
func TestPowerCut(t *testing.T) {
	racetest.Repeats(t) // boltstore's own tests run this code
	needStrace(t)
	totals := make([]Count, len(ways))
	rounds, samples := 2, 1
	if *states > 0 {
		rounds, samples = 4, 6
	}
	opened := 0
	for s := *seed; s == *seed || opened < *states; s++ {
		for i, w := range ways {
			h := w.make(t, s, rounds)
			n, err := h.replay(t, samples).Run(t.Context(), h.sessions...)
			require.NoError(t, err, "%s, replay it with -seed %d", w.name, s)
			require.NotZero(t, n.Acks)
			totals[i].Add(n)
			opened += n.States
		}
		if s%10 == 0 {
			t.Logf("seed %d: %d states", s, opened)
		}
	}
	for i, w := range ways {
		n := totals[i]
		t.Logf("| %s | %d | %d | %d | %d | %d |", w.name, n.Acks, n.Writes, n.Syncs, n.States, n.Losses)
	}
}
