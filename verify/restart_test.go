package verify

import (
	"math/rand/v2"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/store"
)

// A result is on disk when the caller has it: a history continues after the store is closed under its callers and
// opened again.
func TestHistoriesOverARestart(t *testing.T) {
	for name, open := range map[string]func(path string) (embedded, error){"bolt": boltAt, "pebble": pebbleAt} {
		t.Run(name, func(t *testing.T) {
			tally := map[string]int{}
			for _, seed := range seeds(t, 12) {
				var h history
				synctest.Test(t, func(t *testing.T) { h = overARestart(t, seed, open) })
				h.count(tally)
				requireLinearizable(t, h)
			}
			t.Log(tally)
		})
	}
}

func overARestart(t *testing.T, seed uint64, open func(path string) (embedded, error)) (h history) {
	path := filepath.Join(t.TempDir(), "verify.redo")
	r := rand.New(rand.NewPCG(seed, 0))
	p := inTime(seed)
	p.scale, p.calls, p.faults = virtual(time.Now()), 20, true
	p.seen = &board{seen: map[store.ID][]uint64{}}
	for round := range 3 {
		st, err := open(path)
		require.NoError(t, err)
		closed := make(chan error)
		go func() {
			time.Sleep(time.Duration(r.IntN(24)) * p.palette.beat)
			cancelSoon(r, func() {})() // when those who wake at the same instant are at it
			closed <- st.Close()
		}()
		p.seed, p.began = seed+uint64(round)<<32, p.scale.now()
		next := p.run(t.Context(), st)
		require.NoError(t, <-closed)
		if round == 0 {
			h = next
		} else {
			h = h.restarted(next)
		}
	}
	h.plan.seed = seed
	return h
}
