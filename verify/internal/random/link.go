package random

import (
	"context"
	"iter"
	"time"

	"github.com/redo-go/redo/store"
)

// A Fault is what happens to a call of the store.
type Fault int

const (
	// None is no fault.
	None Fault = iota
	// Refused changes nothing, and the error shows it.
	Refused
	// Lost changes nothing, and the error does not show it.
	Lost
	// Unanswered takes effect, and its response is lost.
	Unanswered
	// Hangs takes effect, and its response does not come.
	Hangs
	// Faults is the number of faults, with None.
	Faults
)

// A Link is the way from a process to its store. Calls fail on it in every way that the store's contract allows.
type Link struct {
	store.Store
	Before func(context.Context) // is called before each call
	After  func(context.Context) // is called after each call
	Cut    func() bool           // reports whether no call reaches the store
	Draw   func() Fault          // draws what happens to a call
}

// Over makes a call that may fail on the way. A caller whose context has ended does not wait for the response.
func (k Link) Over(ctx context.Context, call func() error) error {
	k.Before(ctx)
	err := k.over(ctx, call)
	if k.After(ctx); err == nil && ctx.Err() != nil {
		return store.ErrUnknown
	}
	return err
}

func (k Link) over(ctx context.Context, call func() error) error {
	if k.Cut() {
		return store.ErrUnavailable
	}
	switch k.Draw() {
	case Refused:
		return store.ErrUnavailable
	case Lost:
		return store.ErrUnknown
	case Unanswered:
		_ = call()
		return store.ErrUnknown
	case Hangs:
		_ = call()
		<-ctx.Done()
		return store.ErrUnknown
	case None, Faults:
	}
	return call()
}

// Read makes a call that changes nothing.
func (k Link) Read(ctx context.Context, call func() error) error {
	k.Before(ctx)
	defer k.After(ctx)
	if k.Cut() {
		return store.ErrUnavailable
	}
	switch k.Draw() {
	case None:
		return call()
	case Hangs:
		<-ctx.Done()
		return ctx.Err()
	default:
		return store.ErrUnavailable
	}
}

// Reserve implements store.Store.
func (k Link) Reserve(ctx context.Context, c store.Claim) (g store.Grant, err error) {
	err = k.Over(ctx, func() (err error) {
		g, err = k.Store.Reserve(ctx, c)
		return err
	})
	if err != nil {
		return store.Grant{}, err
	}
	return g, nil
}

// Extend implements store.Store.
func (k Link) Extend(ctx context.Context, l store.Lease, d time.Duration, meta []byte) error {
	return k.Over(ctx, func() error { return k.Store.Extend(ctx, l, d, meta) })
}

// Complete implements store.Store.
func (k Link) Complete(ctx context.Context, l store.Lease, o store.Outcome) error {
	return k.Over(ctx, func() error { return k.Store.Complete(ctx, l, o) })
}

// Release implements store.Store.
func (k Link) Release(ctx context.Context, l store.Lease) error {
	return k.Over(ctx, func() error { return k.Store.Release(ctx, l) })
}

// Forget forgets a record of a store that is a store.Forgetter.
func (k Link) Forget(ctx context.Context, l store.Lease) error {
	return k.Over(ctx, func() error { return k.Store.(store.Forgetter).Forget(ctx, l) })
}

// Find implements store.Store.
func (k Link) Find(ctx context.Context, id store.ID) (rec store.Record, err error) {
	err = k.Read(ctx, func() (err error) {
		rec, err = k.Store.Find(ctx, id)
		return err
	})
	return rec, err
}

// Pending lists the records of a store that is a store.Lister.
func (k Link) Pending(ctx context.Context, scope string) iter.Seq2[store.Record, error] {
	if err := k.Read(ctx, func() error { return nil }); err != nil {
		return func(yield func(store.Record, error) bool) { yield(store.Record{}, err) }
	}
	return k.Store.(store.Lister).Pending(ctx, scope)
}
