package boltoutbox

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"go.etcd.io/bbolt"

	"github.com/redo-go/redo/outbox"
	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/boltstore"
)

// These are the interfaces that a Queue implements.
var (
	_ outbox.Queue   = (*Queue)(nil)
	_ outbox.Backlog = (*Queue)(nil)
	_ outbox.Watcher = (*Queue)(nil)
)

// Queue is an outbox in one bucket of a store's file. Create one with [New]. It has no goroutine while it is idle,
// and needs no Close: close the store after the relays have ended. All methods may be called concurrently, and
// several Queues may use one bucket.
type Queue struct {
	st   *boltstore.Store
	db   *bbolt.DB // the store's
	name []byte
	ops  batch
	bell bell
}

// Option changes the queue that New returns.
type Option interface{ apply(*Queue) error }

type option func(*Queue) error

func (o option) apply(q *Queue) error { return o(q) }

// WithBucket names the root bucket. The default is "redo-outbox". Two buckets are two independent queues. The name
// must not be empty, nor "redo", which is the store's own.
func WithBucket(name string) Option {
	return option(func(q *Queue) error {
		if name == "" || name == "redo" || len(name) > bbolt.MaxKeySize {
			return fmt.Errorf("boltoutbox: %w: the bucket's name is %.80q, it must be neither empty "+
				"nor the store's own",
				store.ErrInvalid, name)
		}
		q.name = []byte(name)
		return nil
	})
}

// New returns the queue in the store's file, and creates its bucket if there is none. It returns an error wrapping
// [ErrFormat] if the bucket belongs to another application, or if another version of this package wrote it.
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
		return guarded(func() error { return q.find(tx) })
	})
	if errors.Is(err, errNoBucket) {
		err = st.Update(ctx, func(tx *boltstore.Tx) error {
			return guarded(func() error { return q.create(tx) })
		})
	}
	if err != nil {
		return nil, err
	}
	return q, nil
}

// Enqueue writes the event in the caller's transaction and returns its id. The event is delivered if the
// transaction is committed.
//
// It returns outbox.ErrDuplicate if the queue has an event with the id for the destination. It returns
// store.ErrInvalid for an event that breaks a rule of [outbox.Event]. It also returns store.ErrInvalid for a
// transaction that is read-only, ended, or of another file. Nothing was written then, and the transaction can go
// on. After any other error the transaction must be rolled back.
func (q *Queue) Enqueue(ctx context.Context, tx *boltstore.Tx, ev outbox.Event) (string, error) {
	ids, err := q.EnqueueBatch(ctx, tx, []outbox.Event{ev})
	if err != nil {
		return "", err
	}
	return ids[0], nil
}

// EnqueueBatch writes all events in the caller's transaction, or none, and returns their ids. Its errors are those of
// Enqueue. Two events of the batch with one id and one destination are outbox.ErrDuplicate.
func (q *Queue) EnqueueBatch(ctx context.Context, tx *boltstore.Tx, events []outbox.Event) ([]string, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	events, ids, err := outbox.PrepareBatch(events)
	if err != nil {
		return nil, err
	}
	if tx == nil || !tx.Writable() {
		return nil, fmt.Errorf("boltoutbox: %w: the transaction is not open for writing", store.ErrInvalid)
	}
	if err := guarded(func() error { return q.enqueue(tx, events) }); err != nil {
		return nil, err
	}
	tx.OnCommit(q.bell.ring)
	return ids, nil
}

func (q *Queue) enqueue(tx *boltstore.Tx, events []outbox.Event) error {
	f, err := q.open(tx, time.Now().UnixNano())
	if errors.Is(err, errNoBucket) {
		return fmt.Errorf("boltoutbox: %w: the transaction's file has no bucket %q", store.ErrInvalid, q.name)
	}
	if err != nil {
		return explain(err)
	}
	if f.root.Tx().DB() != q.db {
		return fmt.Errorf("boltoutbox: %w: the transaction is of another file", store.ErrInvalid)
	}
	if err := f.enqueue(events); err != nil {
		return err
	}
	if err := f.tidy(); err != nil {
		return explain(err)
	}
	return nil
}

// Append implements [outbox.Queue].
func (q *Queue) Append(ctx context.Context, events ...outbox.Event) error {
	events, _, err := outbox.PrepareBatch(events)
	if err != nil {
		return err
	}
	return q.change(ctx, func(f *file) error { return f.enqueue(events) })
}

// Claim implements [outbox.Queue]. It takes one due event of each line before a second event of any line.
func (q *Queue) Claim(ctx context.Context, c outbox.Claim) ([]outbox.Delivery, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	var due int
	err := q.view(ctx, func(f *file) error {
		first := c
		first.Max = 1
		due = len(f.picks(first))
		return nil
	})
	if err != nil || due == 0 {
		return nil, err
	}
	return value(ctx, q, func(f *file) []outbox.Delivery { return f.claim(c) })
}

// Extend implements [outbox.Queue].
func (q *Queue) Extend(ctx context.Context, d time.Duration, leases ...outbox.Lease) ([]outbox.Lease, error) {
	if err := outbox.CheckLease(d); err != nil {
		return nil, err
	}
	return value(ctx, q, func(f *file) []outbox.Lease { return f.extend(f.now+int64(d), leases) })
}

// Settle implements [outbox.Queue].
func (q *Queue) Settle(ctx context.Context, ended ...outbox.Settlement) ([]outbox.Lease, error) {
	for _, e := range ended {
		if err := e.Outcome.Validate(); err != nil {
			return nil, err
		}
	}
	return value(ctx, q, func(f *file) []outbox.Lease { return f.settle(ended) })
}

// Disable implements [outbox.Queue].
func (q *Queue) Disable(ctx context.Context, destination string, why outbox.Failure) error {
	err := outbox.Event{ID: "any", Destination: destination}.Validate()
	if err == nil {
		err = outbox.Outcome{Result: outbox.Dead, Failure: why}.Validate()
	}
	if err != nil {
		return err
	}
	return q.change(ctx, func(f *file) error {
		f.disable(destination, why)
		return nil
	})
}

// Enable implements [outbox.Queue].
func (q *Queue) Enable(ctx context.Context, destination string) error {
	return q.change(ctx, func(f *file) error {
		f.enable(destination)
		return nil
	})
}

// Disabled implements [outbox.Queue].
func (q *Queue) Disabled(ctx context.Context) (found []outbox.DisabledDestination, err error) {
	err = q.view(ctx, func(f *file) error {
		for s := f.scan(f.disabled, nil, nil); s.key != nil; s.next() {
			var why failure
			if err := decode(s.value, &why); err != nil {
				return err
			}
			found = append(found, outbox.DisabledDestination{
				Destination: strings.TrimSuffix(string(s.key), "\x00"), Since: time.Unix(0, why.At),
				Why: why.past().Failure,
			})
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return found, nil
}
