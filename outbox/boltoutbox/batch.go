package boltoutbox

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/boltstore"
)

// batch gathers the changes that arrive during a commit, for the next commit.
type batch struct {
	mu      sync.Mutex
	waiting []*op
	running bool // a goroutine commits
}

// op is one change. It can't be withdrawn after it has left the batch.
type op struct {
	apply func(f *file) error
	err   error
	done  chan struct{}
}

// change applies f in a commit that other changes may share, and returns when the commit is on disk. An error of f
// fails no other change. If f returns an error, it must have changed nothing.
func (q *Queue) change(ctx context.Context, f func(f *file) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	o := &op{apply: f, done: make(chan struct{})}
	b := &q.ops
	b.mu.Lock()
	b.waiting = append(b.waiting, o)
	if !b.running {
		b.running = true
		go q.commit()
	}
	b.mu.Unlock()
	select {
	case <-o.done:
		return o.err
	case <-ctx.Done():
	}
	b.mu.Lock()
	i := slices.Index(b.waiting, o)
	if i >= 0 {
		b.waiting = slices.Delete(b.waiting, i, i+1)
	}
	b.mu.Unlock()
	if i >= 0 {
		return ctx.Err()
	}
	return fmt.Errorf("boltoutbox: %w: %w", ctx.Err(), store.ErrUnknown)
}

// value is like change, but returns a result.
func value[T any](ctx context.Context, q *Queue, f func(f *file) T) (T, error) {
	var v T
	err := q.change(ctx, func(opened *file) error {
		v = f(opened)
		return nil
	})
	if err != nil {
		var none T // f may still run
		return none, err
	}
	return v, nil
}

// commit commits batches until no change waits.
func (q *Queue) commit() {
	b := &q.ops
	for {
		b.mu.Lock()
		ops := b.waiting
		b.waiting = nil
		if len(ops) == 0 {
			b.running = false
			b.mu.Unlock()
			return
		}
		b.mu.Unlock()
		q.carry(ops)
	}
}

// errUnchanged rolls back a transaction that wrote nothing.
var errUnchanged = errors.New("boltoutbox: nothing to commit")

// carry commits the ops and returns their errors to the callers.
func (q *Queue) carry(ops []*op) {
	wakes := false
	err := q.st.Update(context.Background(), func(tx *boltstore.Tx) error {
		return guarded(func() error {
			f, err := q.open(tx, time.Now().UnixNano())
			if err != nil {
				return err
			}
			for _, o := range ops {
				o.err = o.apply(f)
				if err := f.tidy(); err != nil {
					return err
				}
			}
			if wakes = f.wakes; !f.changed {
				return errUnchanged
			}
			return nil
		})
	})
	if err == nil && wakes {
		q.bell.ring()
	}
	for _, o := range ops {
		if err != nil && !errors.Is(err, errUnchanged) && o.err == nil {
			o.err = explain(err)
		}
		close(o.done)
	}
}

// explain makes an error wrap ErrUnavailable unless it is one of the store's, because nothing was changed.
func explain(err error) error {
	if errors.Is(err, store.ErrUnavailable) || errors.Is(err, store.ErrUnknown) {
		return err
	}
	if errors.Is(err, errNoBucket) {
		return fmt.Errorf("%w: the bucket was deleted: %w", ErrCorrupt, store.ErrUnavailable)
	}
	return fmt.Errorf("boltoutbox: %w: %w", err, store.ErrUnavailable)
}
