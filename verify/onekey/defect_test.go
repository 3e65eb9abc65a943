package onekey

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/store"
)

// A flawedStore breaks one rule of its contract. A nil function breaks none.
type flawedStore struct {
	store.Store
	grant    func(*store.Grant)
	complete func(context.Context, store.Store, store.Lease, store.Outcome) error
	release  func(context.Context, store.Store, store.Lease) error
}

func (f flawedStore) Reserve(ctx context.Context, c store.Claim) (store.Grant, error) {
	g, err := f.Store.Reserve(ctx, c)
	if err == nil && f.grant != nil {
		f.grant(&g)
	}
	return g, err
}

func (f flawedStore) Complete(ctx context.Context, l store.Lease, o store.Outcome) error {
	if f.complete == nil {
		return f.Store.Complete(ctx, l, o)
	}
	return f.complete(ctx, f.Store, l, o)
}

func (f flawedStore) Release(ctx context.Context, l store.Lease) error {
	if f.release == nil {
		return f.Store.Release(ctx, l)
	}
	return f.release(ctx, f.Store, l)
}

// The middleware can keep the rules only if the store keeps its own. So each of these is found.
func TestEachPlantedDefectIsFound(t *testing.T) {
	for name, f := range map[string]flawedStore{
		"a take-over looks like a new key": {grant: func(g *store.Grant) {
			if g.Verdict == store.TakenOver {
				g.Verdict = store.Acquired
			}
		}},
		"a take-over loses checkpoint and mark": {grant: func(g *store.Grant) { g.Record.Meta = nil }},
		"an outcome is acknowledged and lost": {complete: func(
			context.Context, store.Store, store.Lease, store.Outcome,
		) error {
			return nil
		}},
		"an outcome is kept without its result": {complete: func(
			ctx context.Context, st store.Store, l store.Lease, o store.Outcome,
		) error {
			o.Result = nil
			return st.Complete(ctx, l, o)
		}},
		"a refusal is recorded as released": {complete: func(
			ctx context.Context, st store.Store, l store.Lease, o store.Outcome,
		) error {
			if o.Failed {
				return st.Release(ctx, l)
			}
			return st.Complete(ctx, l, o)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			const tries = 200
			l := lives(t, 0, tries, func(st store.Store) store.Store { f.Store = st; return f })
			require.NotNil(t, l, "not found in %d lives", tries)
			t.Logf("found by seed %d: %s", l.Seed, l.Violation())
		})
	}
}

// The twin: without its release a key looks like that of a dead owner. That costs a question, and no effect.
func TestALostReleaseBreaksNoRule(t *testing.T) {
	f := flawedStore{release: func(context.Context, store.Store, store.Lease) error { return nil }}
	if l := lives(t, 0, 200, func(st store.Store) store.Store { f.Store = st; return f }); l != nil {
		require.Fail(t, l.Violation(), "%v", l)
	}
}
