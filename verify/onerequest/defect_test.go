package onerequest

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/store"
)

// A flawedStore breaks one rule of its contract. A nil function breaks none.
type flawedStore struct {
	backend
	claim    func(*store.Claim)
	grant    func(*store.Grant)
	complete func(context.Context, store.Store, store.Lease, store.Outcome) error
}

func (f flawedStore) Reserve(ctx context.Context, c store.Claim) (store.Grant, error) {
	if f.claim != nil {
		f.claim(&c)
	}
	g, err := f.backend.Reserve(ctx, c)
	if err == nil && f.grant != nil {
		f.grant(&g)
	}
	return g, err
}

func (f flawedStore) Complete(ctx context.Context, l store.Lease, o store.Outcome) error {
	if f.complete == nil {
		return f.backend.Complete(ctx, l, o)
	}
	return f.complete(ctx, f.backend, l, o)
}

// The gateway can keep the rules only if the store and the upstream keep their own. So each of these is found.
func TestEachPlantedDefectIsFound(t *testing.T) {
	for name, f := range map[string]struct {
		store   flawedStore
		keyless bool
	}{
		"the upstream ignores keys": {keyless: true},
		"another payload is taken for the same": {store: flawedStore{grant: func(g *store.Grant) {
			if g.Verdict == store.Mismatch && g.Record.State != store.StatePending {
				g.Verdict = store.Complete
			}
		}}},
		"an outcome is acknowledged and lost": {store: flawedStore{complete: func(
			context.Context, store.Store, store.Lease, store.Outcome,
		) error {
			return nil
		}}},
		"another outcome is kept": {store: flawedStore{complete: func(
			ctx context.Context, st store.Store, l store.Lease, o store.Outcome,
		) error {
			o.Result = nil
			return st.Complete(ctx, l, o)
		}}},
	} {
		t.Run(name, func(t *testing.T) {
			const tries = 1000
			l := lives(t, 0, tries, func(st backend) backend {
				f.store.backend = st
				return f.store
			}, f.keyless)
			require.NotNil(t, l, "not found in %d lives", tries)
			t.Logf("found by seed %d: %s", l.Seed, l.Violation())
		})
	}
}

// The twin: a lease that ends later costs time and no effect.
func TestALongerLeaseBreaksNoRule(t *testing.T) {
	l := lives(t, 0, 100, func(st backend) backend {
		return flawedStore{backend: st, claim: func(c *store.Claim) {
			if c.Lease > 0 {
				c.Lease += time.Second
			}
		}}
	}, false)
	if l != nil {
		require.Fail(t, l.Violation(), "%v", l)
	}
}
