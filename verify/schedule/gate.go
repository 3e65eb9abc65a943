package schedule

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/redo-go/redo/store"
)

// A backend has the methods that a client's store needs here.
type backend interface {
	store.Store
	store.Forgetter
	store.Lister
}

// A gate is one process's way to the shared store. Every call is a step, and may fail.
type gate struct {
	backend
	process *process
}

// A breach is a fault that hits one call of the store.
type breach uint8

const (
	sound      breach = iota
	refused           // ErrUnavailable; nothing is changed
	unheard           // ErrUnknown; the call is made
	unmade            // ErrUnknown; the call is not made
	terminated        // the process is dead
)

func (g *gate) enter(ctx context.Context, what string) breach {
	r := g.process.run
	if !g.process.park(&turn{call: callOf(ctx), what: what}) {
		return terminated
	}
	if r.calm || r.rng.IntN(100) >= r.faults.store {
		return sound
	}
	return refused + breach(r.rng.IntN(3))
}

// write makes a call that changes the record. The call returns a note for the trace.
func (g *gate) write(ctx context.Context, what string, call func() (string, error)) error {
	b := g.enter(ctx, what)
	var note string
	var err error
	switch b {
	case terminated:
		return errors.Join(store.ErrUnavailable, errOver)
	case refused:
		err = store.ErrUnavailable
	case unmade:
		err = fmt.Errorf("%w: the request is lost", store.ErrUnknown)
	case sound, unheard:
		note, err = call()
	}
	if b == unheard {
		err = fmt.Errorf("%w: the response is lost", store.ErrUnknown)
	}
	g.process.run.logResult(g.process.number, callOf(ctx), what, note, err)
	return err
}

// change makes a call that needs the lease.
func (g *gate) change(ctx context.Context, what string, l store.Lease, meta []byte, call func() error) error {
	return g.write(ctx, what, func() (string, error) {
		return fmt.Sprintf("fence %d%s", l.Fence, noteOf(meta)), call()
	})
}

// noteOf describes the effect that a pending record's meta reports.
func noteOf(meta []byte) string {
	switch {
	case meta == nil:
		return ""
	case bytes.Contains(meta, []byte(`"unapplied":true`)):
		return ", marked unapplied"
	}
	return ", unmarked"
}

// Reserve implements store.Store.
func (g *gate) Reserve(ctx context.Context, c store.Claim) (grant store.Grant, err error) {
	err = g.write(ctx, "Reserve", func() (note string, err error) {
		grant, err = g.backend.Reserve(ctx, c)
		return fmt.Sprintf("%v, fence %d%s", grant.Verdict, grant.Record.Fence, noteOf(grant.Record.Meta)), err
	})
	if err != nil {
		return store.Grant{}, err
	}
	return grant, nil
}

// Find implements store.Store.
func (g *gate) Find(ctx context.Context, id store.ID) (rec store.Record, err error) {
	switch g.enter(ctx, "Find") {
	case terminated:
		return rec, errors.Join(store.ErrUnavailable, errOver)
	case sound:
		rec, err = g.backend.Find(ctx, id)
	default:
		err = store.ErrUnavailable
	}
	note := fmt.Sprintf("%v, fence %d%s", rec.State, rec.Fence, noteOf(rec.Meta))
	g.process.run.logResult(g.process.number, callOf(ctx), "Find", note, err)
	return rec, err
}

// Pending implements store.Lister. It yields records as they were at one instant.
func (g *gate) Pending(ctx context.Context, scope string) iter.Seq2[store.Record, error] {
	return func(yield func(store.Record, error) bool) {
		if g.enter(ctx, "Pending") != sound {
			yield(store.Record{}, store.ErrUnavailable)
			return
		}
		g.process.run.logCall(g.process.number, callOf(ctx), "Pending", "listed")
		for rec, err := range g.backend.Pending(ctx, scope) {
			if !yield(rec, err) {
				return
			}
		}
	}
}

// Extend implements store.Store.
func (g *gate) Extend(ctx context.Context, l store.Lease, d time.Duration, meta []byte) error {
	return g.change(ctx, "Extend", l, meta, func() error { return g.backend.Extend(ctx, l, d, meta) })
}

// Complete implements store.Store.
func (g *gate) Complete(ctx context.Context, l store.Lease, o store.Outcome) error {
	what := "Complete"
	if o.Failed {
		what = "Complete as failed"
	}
	return g.change(ctx, what, l, nil, func() error { return g.backend.Complete(ctx, l, o) })
}

// Release implements store.Store.
func (g *gate) Release(ctx context.Context, l store.Lease) error {
	return g.change(ctx, "Release", l, nil, func() error { return g.backend.Release(ctx, l) })
}

// Forget implements store.Forgetter.
func (g *gate) Forget(ctx context.Context, l store.Lease) error {
	return g.change(ctx, "Forget", l, nil, func() error { return g.backend.Forget(ctx, l) })
}
