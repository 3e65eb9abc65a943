package verify

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/internal/racetest"
	"github.com/redo-go/redo/store"
)

func TestHistoriesOnRedis(t *testing.T) { historiesOn(t, newOnRedis) }

func TestHistoriesOnPostgres(t *testing.T) { historiesOn(t, newOnPostgres) }

// Behind a transaction pooler statements are sent as text. This is another protocol, which loses its responses in
// another way.
func TestHistoriesOnPostgresAsText(t *testing.T) {
	racetest.Repeats(t)
	historiesOn(t, func(t *testing.T) engine {
		e := newOnPostgres(t).(*onPostgres)
		e.mode = pgx.QueryExecModeSimpleProtocol
		return e
	})
}

// historiesOn makes histories over two handles on one backend.
func historiesOn(t *testing.T, newEngine func(*testing.T) engine) {
	type trouble func(t *testing.T, e engine, run func()) func()
	many := func(t *testing.T, n int, change func(*plan), while trouble) {
		e := newEngine(t)
		one, two := e.open(t), e.open(t)
		tally := map[string]int{}
		for _, seed := range seeds(t, n) {
			p := inPlace(seed)
			p.scope, p.scale = newName(), nominal()
			change(&p)
			var h history
			run := func() { h = p.run(t.Context(), one, two) }
			while(t, e, run)()
			h.count(tally)
			requireLinearizable(t, h)
		}
		t.Logf("%v", tally)
	}
	t.Run("linearizable over two handles", func(t *testing.T) {
		many(t, 12, func(*plan) {}, peace)
	})
	t.Run("linearizable while contexts end", func(t *testing.T) {
		many(t, 20, func(p *plan) { *p = apart(*p); p.cancel = cancelWithin(2 * time.Millisecond) }, peace)
	})
	t.Run("linearizable while connections break", func(t *testing.T) {
		many(t, 20, func(p *plan) { *p = apart(*p); p.faults = true }, disturbance)
	})
	t.Run("linearizable while responses get lost", func(t *testing.T) {
		many(t, 20, func(p *plan) { *p = apart(*p); p.faults = true }, wear)
	})
}

// apart spreads the calls over more IDs. A call whose response was lost may have taken effect at any time after
// its beginning, so each one doubles the possible orders.
func apart(p plan) plan {
	p.workers, p.calls, p.ids = 8, 16, 8
	return p
}

func peace(_ *testing.T, _ engine, f func()) func() { return f }

// wear wears the lines to the engine out while f runs.
func wear(_ *testing.T, e engine, f func()) func() {
	return func() {
		e.wear(true)
		defer e.wear(false)
		f()
	}
}

// disturbance disturbs the engine again and again while f runs.
func disturbance(t *testing.T, e engine, f func()) func() {
	return func() {
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() {
			tick := time.NewTicker(4 * time.Millisecond)
			defer tick.Stop()
			for ctx.Err() == nil {
				if err := e.disturb(ctx); err != nil && ctx.Err() == nil {
					t.Errorf("disturbing: %v", err)
					return
				}
				select {
				case <-tick.C:
				case <-ctx.Done():
				}
			}
		})
		f()
		cancel()
		wg.Wait()
	}
}

// count adds up the outcomes of the calls, for the log. A history without failures proves little about failures.
func (h history) count(tally map[string]int) {
	for _, e := range h.events {
		kind := "done"
		switch err := e.out.err; {
		case err == nil:
		case errors.Is(err, store.ErrUnknown):
			kind = "unknown"
		case errors.Is(err, store.ErrUnavailable):
			kind = "unavailable"
		case errors.Is(err, context.Canceled):
			kind = "ended"
		default:
			kind = "refused"
		}
		tally[kind]++
	}
}

// A server keeps its records between histories, so each history has a different name.
func TestNamesDiffer(t *testing.T) {
	require.NotEqual(t, newName(), newName())
}
