package boltoutbox

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/redo-go/redo/outbox"
	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/boltstore"
)

// A batch gathers the changes that arrive during a commit, for the next commit.
type batch struct {
	mu      sync.Mutex
	waiting []*op
	running bool // a goroutine commits
}

// An op is one change. It can't be withdrawn after it has left the batch.
type op struct {
	apply func(f *file, now int64) error
	err   error
	done  chan struct{}
}

// change applies f in a commit that other changes may share, and returns when that is on disk. An error that
// concerns the caller of f alone fails no other change: f has changed nothing then.
func (q *Queue) change(ctx context.Context, f func(f *file, now int64) error) error {
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
		f, err := q.open(tx)
		if err != nil {
			return err
		}
		defer func() { wakes = f.wakes }()
		now := time.Now().UnixNano()
		for _, o := range ops {
			if o.err = o.apply(f, now); o.err != nil && !callers(o.err) {
				return o.err
			}
		}
		if !f.changed {
			return errUnchanged
		}
		return nil
	})
	if err == nil && wakes {
		q.bell.ring()
	}
	for _, o := range ops {
		if err != nil && !errors.Is(err, errUnchanged) && !callers(o.err) {
			o.err = explain(err)
		}
		close(o.done)
	}
}

// callers reports whether an error concerns the caller of one change alone.
func callers(err error) bool {
	return errors.Is(err, store.ErrLost) || errors.Is(err, outbox.ErrNoLetter)
}

// explain makes an error that is not the store's wrap ErrUnavailable, because nothing was changed.
func explain(err error) error {
	if errors.Is(err, store.ErrUnavailable) || errors.Is(err, store.ErrUnknown) {
		return err
	}
	if errors.Is(err, errNoBucket) {
		return fmt.Errorf("%w: the bucket was deleted: %w", ErrCorrupt, store.ErrUnavailable)
	}
	return fmt.Errorf("boltoutbox: %w: %w", err, store.ErrUnavailable)
}
