package gateway

import (
	"context"

	"github.com/redo-go/redo/store"
)

// A lazyStore is the store of the middleware. It makes the middleware's claims and successes lazy, so that a request
// waits for one durable write. The client makes it, before the first byte goes upstream. The claim is then durable too.
// If a crash loses a success, the request is sent again under its upstream key, and the upstream replays its response.
// A failure is not lazy, because the upstream may not keep it.
type lazyStore struct {
	store.Store
	store.Waiter
}

func newLazyStore(st store.Store) store.Store {
	w, ok := st.(store.Waiter)
	if !ok {
		w = store.Poll(st)
	}
	return lazyStore{st, w}
}

// Reserve implements store.Store.
func (s lazyStore) Reserve(ctx context.Context, c store.Claim) (store.Grant, error) {
	c.Lazy = true
	return s.Store.Reserve(ctx, c)
}

// Complete implements store.Store.
func (s lazyStore) Complete(ctx context.Context, l store.Lease, o store.Outcome) error {
	o.Lazy = !o.Failed
	return s.Store.Complete(ctx, l, o)
}
