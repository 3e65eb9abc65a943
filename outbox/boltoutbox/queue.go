package boltoutbox

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.etcd.io/bbolt"

	"github.com/redo-go/redo/outbox"
	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/boltstore"
)

// Interfaces that a Queue implements.
var (
	_ outbox.Queue   = (*Queue)(nil)
	_ outbox.Backlog = (*Queue)(nil)
	_ outbox.Watcher = (*Queue)(nil)
)

// A Queue is an outbox in one bucket of a store's file. Create one with [New]. It has no goroutine while it is
// idle, and needs no Close: close the store after the relays have ended. All methods may be called concurrently,
// and several Queues may use one bucket.
type Queue struct {
	st   *boltstore.Store
	name []byte
	ops  batch
	bell bell
}

// An Option changes what New sets up.
type Option interface{ apply(*Queue) error }

type option func(*Queue) error

func (o option) apply(q *Queue) error { return o(q) }

// WithBucket names the root bucket. The default is "redo-outbox". Two buckets are two independent queues. The name
// must not be empty, nor "redo", which is the store's own.
func WithBucket(name string) Option {
	return option(func(q *Queue) error {
		if name == "" || name == "redo" || len(name) > bbolt.MaxKeySize {
			return fmt.Errorf("boltoutbox: %w: the bucket's name is %.80q, it must be neither empty nor the store's own",
				store.ErrInvalid, name)
		}
		q.name = []byte(name)
		return nil
	})
}

// New returns the queue in the store's file, and creates its bucket if there is none. It returns an error wrapping
// [ErrFormat] if the bucket is another application's, or a later release wrote it.
func New(ctx context.Context, st *boltstore.Store, opts ...Option) (*Queue, error) {
	if st == nil {
		return nil, fmt.Errorf("boltoutbox: %w: the store is nil", store.ErrInvalid)
	}
	q := &Queue{st: st, name: []byte("redo-outbox")}
	for _, o := range opts {
		if o == nil {
			return nil, fmt.Errorf("boltoutbox: %w: an option is nil", store.ErrInvalid)
		}
		if err := o.apply(q); err != nil {
			return nil, err
		}
	}
	err := st.View(ctx, func(tx *boltstore.Tx) error {
		_, err := q.open(tx)
		return err
	})
	if errors.Is(err, errNoBucket) {
		err = st.Update(ctx, q.create)
	}
	if err != nil {
		return nil, err
	}
	return q, nil
}

// Enqueue writes the event in the caller's transaction and returns its id. The event is delivered if the transaction is
// committed.
//
// It returns outbox.ErrDuplicate if the queue has an event with the id. It returns store.ErrInvalid for an event
// that breaks a rule of [outbox.Event], and for a transaction that is read-only, over, or of another file. Nothing
// was written then, and the transaction can go on. After any other error the transaction must be rolled back.
func (q *Queue) Enqueue(ctx context.Context, tx *boltstore.Tx, ev outbox.Event) (string, error) {
	if err := ctx.Err(); err != nil {
		return "", err
	}
	ev, err := outbox.Prepare(ev)
	if err != nil {
		return "", err
	}
	if tx == nil || !tx.Writable() {
		return "", fmt.Errorf("boltoutbox: %w: the transaction is not open for writing", store.ErrInvalid)
	}
	f, err := q.open(tx)
	if errors.Is(err, errNoBucket) {
		return "", fmt.Errorf("boltoutbox: %w: the transaction is of a file without the bucket %q", store.ErrInvalid, q.name)
	}
	if err == nil {
		err = f.enqueue(ev, time.Now().UnixNano())
	}
	if err != nil {
		if !errors.Is(err, outbox.ErrDuplicate) {
			err = explain(err)
		}
		return "", err
	}
	tx.OnCommit(q.bell.ring)
	return ev.ID, nil
}

// Claim implements [outbox.Queue].
func (q *Queue) Claim(ctx context.Context, c outbox.Claim) ([]outbox.Delivery, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	due := 0
	err := q.view(ctx, func(f *file) error {
		places, err := f.candidates(time.Now().UnixNano(), 1, c.HoldKeys)
		due = len(places)
		return err
	})
	if err != nil || due == 0 {
		return nil, err
	}
	var ds []outbox.Delivery
	err = q.change(ctx, func(f *file, now int64) (err error) {
		ds, err = f.claim(now, c)
		return err
	})
	if err != nil {
		return nil, err
	}
	return ds, nil
}

// Extend implements [outbox.Queue].
func (q *Queue) Extend(ctx context.Context, l outbox.Lease, d time.Duration) error {
	if err := outbox.CheckLease(d); err != nil {
		return err
	}
	return q.change(ctx, func(f *file, now int64) error { return f.extend(l, now+int64(d)) })
}

// Settle implements [outbox.Queue].
func (q *Queue) Settle(ctx context.Context, l outbox.Lease, o outbox.Outcome) error {
	if err := o.Validate(); err != nil {
		return err
	}
	return q.change(ctx, func(f *file, now int64) error { return f.settle(l, o, now) })
}
