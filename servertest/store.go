package servertest

import (
	"context"
	"fmt"

	"github.com/redo-go/redo/store"
)

// storeCall is a method of the store that a fault makes fail.
type storeCall uint8

const (
	failNothing storeCall = iota
	failReserve
	failComplete
)

func newStoreFault(call storeCall, name string) Fault {
	f := newFault(func(x *exchange) {
		_ = x.put(x.deliver(&visit{fails: call})) // only the call of the store counts
	}, "%s", name)
	f.needsStore, f.seesStore = true, true
	return f
}

// watchStore returns st with the faults applied. It finds visits by their context, so a key's scope and its
// record's name in the store do not matter.
func watchStore(st store.Store) store.Store {
	w := watchedStore{st}
	if waiter, ok := st.(store.Waiter); ok {
		return struct {
			watchedStore
			store.Waiter
		}{w, waiter}
	}
	return w
}

type watchedStore struct{ store.Store }

// TransactionsOf returns the store whose transactions server.Transactional uses. No fault applies to them.
func (s watchedStore) TransactionsOf() store.Store { return s.Store }

func (s watchedStore) Reserve(ctx context.Context, c store.Claim) (store.Grant, error) {
	v := visitOf(ctx)
	if v.refuses(failReserve) {
		return store.Grant{}, fmt.Errorf("servertest: scripted fault: %w", store.ErrUnavailable)
	}
	g, err := s.Store.Reserve(ctx, c)
	if v != nil && v.onReserve != nil {
		v.onReserve()
	}
	return g, err
}

func (s watchedStore) Complete(ctx context.Context, l store.Lease, o store.Outcome) error {
	if visitOf(ctx).refuses(failComplete) {
		return fmt.Errorf("servertest: scripted fault: %w", store.ErrUnavailable)
	}
	return s.Store.Complete(ctx, l, o)
}

// refuses reports whether the call fails for the visit, and records the failure.
func (v *visit) refuses(call storeCall) bool {
	if v == nil || v.fails != call || v.served.Load() {
		return false
	}
	v.x.fired(nil)
	return true
}
