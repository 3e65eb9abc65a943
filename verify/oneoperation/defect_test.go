package oneoperation

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo"
	"github.com/redo-go/redo/store"
)

// A flawedStore breaks one rule of its contract. A nil function breaks none.
type flawedStore struct {
	backend
	grant    func(*store.Grant)
	extend   func(context.Context, backend, store.Lease, time.Duration, []byte) error
	complete func(context.Context, backend, store.Lease, store.Outcome) error
	forget   func(context.Context, backend, store.Lease) error
}

func (f flawedStore) Reserve(ctx context.Context, c store.Claim) (store.Grant, error) {
	g, err := f.backend.Reserve(ctx, c)
	if err == nil && f.grant != nil {
		f.grant(&g)
	}
	return g, err
}

func (f flawedStore) Extend(ctx context.Context, l store.Lease, d time.Duration, meta []byte) error {
	if f.extend == nil {
		return f.backend.Extend(ctx, l, d, meta)
	}
	return f.extend(ctx, f.backend, l, d, meta)
}

func (f flawedStore) Complete(ctx context.Context, l store.Lease, o store.Outcome) error {
	if f.complete == nil {
		return f.backend.Complete(ctx, l, o)
	}
	return f.complete(ctx, f.backend, l, o)
}

func (f flawedStore) Forget(ctx context.Context, l store.Lease) error {
	if f.forget == nil {
		return f.backend.Forget(ctx, l)
	}
	return f.forget(ctx, f.backend, l)
}

// wrap returns the plant of the store.
func (f flawedStore) plant() plant {
	return plant{wrap: func(b backend) backend { f.backend = b; return f }}
}

// A keyMaker is a client that sends each request under a new key.
type keyMaker struct{ http.RoundTripper }

func (k keyMaker) RoundTrip(req *http.Request) (*http.Response, error) {
	key, err := redo.RandomKeys("")
	if err != nil {
		return nil, err
	}
	req = req.Clone(req.Context())
	req.Header.Set("Idempotency-Key", key)
	return k.RoundTripper.RoundTrip(req)
}

// current returns the lease of the record's last owner, so that a stale one changes it too.
func current(ctx context.Context, b backend, l store.Lease) store.Lease {
	if rec, err := b.Find(ctx, l.ID); err == nil {
		return rec.Lease()
	}
	return l
}

// The client can keep the rules only if store, server and probe keep theirs. So each of these is found.
func TestEachPlantedDefectIsFound(t *testing.T) {
	for name, d := range map[string]plant{
		"a server that ignores keys":       {keyless: true},
		"a server that forgets keys early": {memory: retention / 4},
		"a client that makes a new key":    {transport: func(t http.RoundTripper) http.RoundTripper { return keyMaker{t} }},
		"a probe that denies every effect": {denies: true},
		"a take-over looks like a new operation": flawedStore{grant: func(g *store.Grant) {
			if g.Verdict == store.TakenOver {
				g.Verdict = store.Acquired
			}
		}}.plant(),
		"an outcome is acknowledged and lost": flawedStore{complete: func(
			context.Context, backend, store.Lease, store.Outcome,
		) error {
			return nil
		}}.plant(),
		"a mark is acknowledged and lost": flawedStore{extend: func(
			context.Context, backend, store.Lease, time.Duration, []byte,
		) error {
			return nil
		}}.plant(),
		"a lost mark is acknowledged": flawedStore{extend: func(
			ctx context.Context, b backend, l store.Lease, d time.Duration, meta []byte,
		) error {
			if err := b.Extend(ctx, l, d, meta); !errors.Is(err, store.ErrLost) {
				return err
			}
			return nil
		}}.plant(),
		"a stale owner settles": flawedStore{complete: func(
			ctx context.Context, b backend, l store.Lease, o store.Outcome,
		) error {
			return b.Complete(ctx, current(ctx, b, l), o)
		}}.plant(),
		"an applied operation is recorded as not applied": flawedStore{complete: func(
			ctx context.Context, b backend, l store.Lease, o store.Outcome,
		) error {
			o.Failed = true
			return b.Complete(ctx, l, o)
		}}.plant(),
	} {
		t.Run(name, func(t *testing.T) {
			const tries = 3000
			l := lives(t, 0, tries, d)
			require.NotNil(t, l, "not found in %d lives", tries)
			t.Logf("found by seed %d: %s", l.Seed, l.Violation())
		})
	}
}

// The twin: an operation that was not applied is forgotten instead of recorded. It starts anew all the same.
func TestAForgottenRefusalBreaksNoRule(t *testing.T) {
	d := flawedStore{complete: func(ctx context.Context, b backend, l store.Lease, o store.Outcome) error {
		if o.Failed {
			return b.Release(ctx, l)
		}
		return b.Complete(ctx, l, o)
	}}.plant()
	if l := lives(t, 0, 200, d); l != nil {
		require.Fail(t, l.Violation(), "%v", l)
	}
}
