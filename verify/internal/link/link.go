// Package link is a process's connection to a store. Calls fail on it in every way that the store's contract allows.
package link

import (
	"context"
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

// A Link is a store with the faults of the way to it.
type Link struct {
	store.Store
	Before func()       // is called before each call
	After  func()       // is called after each call that changes a record. Nil: nothing
	Down   func() bool  // reports whether no call reaches the store
	Draw   func() Fault // draws a call's fault
}

// Over makes a call of the store that may fail on the way.
func (k Link) Over(ctx context.Context, call func() error) error {
	k.Before()
	if k.After != nil {
		defer k.After()
	}
	if k.Down() {
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

// Reads reports whether a read of the store gets through. A read that fails has no unknown effect.
func (k Link) Reads() bool {
	k.Before()
	return !k.Down() && k.Draw() == None
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

// Find implements store.Store.
func (k Link) Find(ctx context.Context, id store.ID) (store.Record, error) {
	if !k.Reads() {
		return store.Record{}, store.ErrUnavailable
	}
	return k.Store.Find(ctx, id)
}
