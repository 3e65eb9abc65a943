// Package settle makes the write that ends a lease, and repeats it while the store fails. Without a record of the end
// the work would be done again.
package settle

import (
	"bytes"
	"context"
	"errors"
	"time"

	"github.com/redo-go/redo/store"
)

// FirstPause is the pause before the second attempt at a write. Further pauses double, up to lastPause.
const (
	FirstPause = 50 * time.Millisecond
	lastPause  = time.Second
)

// A Write is the write that ends a lease: Complete, or Release. It must not be used concurrently.
type Write struct {
	Store   store.Store
	Lease   store.Lease
	TTL     time.Duration // of the lease
	Outcome store.Outcome // for Complete
	Release bool
	Renewed time.Time // the lease lasts for TTL from then at least

	lost error // of the last attempt whose response was lost; nil: none was
}

// Try makes one attempt. If it leaves the write open, Try renews the lease after a third of its TTL.
func (w *Write) Try(ctx context.Context) error {
	var err error
	if w.Release {
		err = w.Store.Release(ctx, w.Lease)
	} else {
		err = w.Store.Complete(ctx, w.Lease, w.Outcome)
	}
	err = w.Check(ctx, err)
	if now := time.Now(); Open(err) && now.Sub(w.Renewed) >= w.TTL/3 {
		switch lost := w.Store.Extend(ctx, w.Lease, w.TTL, nil); {
		case lost == nil:
			w.Renewed = now
		case errors.Is(lost, store.ErrLost):
			return w.Check(ctx, lost)
		}
	}
	return err
}

// Check returns the result of an attempt that returned err. If the response of this attempt or an earlier one was lost,
// Check reads from the record whether the write was made. The result is nil if it was. It is store.ErrLost if the write
// can't be made any more.
func (w *Write) Check(ctx context.Context, err error) error {
	switch {
	case errors.Is(err, store.ErrUnknown), errors.Is(err, context.DeadlineExceeded):
		w.lost = err
	case w.lost == nil || !errors.Is(err, store.ErrLost):
		return err
	}
	rec, unread := w.Store.Find(ctx, w.Lease.ID)
	switch {
	case errors.Is(unread, store.ErrNotFound) && w.Release:
		return nil
	case errors.Is(unread, store.ErrNotFound), unread == nil && rec.Fence != w.Lease.Fence:
		return store.ErrLost
	case unread != nil || rec.State == store.StatePending: // if it was not made, the next attempt makes it
		return errors.Join(store.ErrUnknown, w.lost, unread)
	case w.Release || !shows(rec, w.Outcome): // an operator has settled it under the same fence
		return store.ErrLost
	}
	return nil
}

// shows reports whether the settled record has the outcome.
func shows(rec store.Record, o store.Outcome) bool {
	return (rec.State == store.StateFailed) == o.Failed && bytes.Equal(rec.Result, o.Result)
}

// Open reports whether another attempt at the write that returned err could have another result.
func Open(err error) bool {
	return err != nil && !errors.Is(err, store.ErrLost) && !errors.Is(err, store.ErrInvalid)
}

// Repeat goes on after an attempt at a write that returned err. It makes further attempts, with pauses, until the write
// is no longer open or ctx ends. The pauses are short enough for a lease of the TTL to be renewed in time. It returns
// the last attempt's error.
func Repeat(ctx context.Context, ttl time.Duration, err error, attempt func() error) error {
	last := max(FirstPause, min(lastPause, ttl/6))
	for pause := FirstPause; Open(err) && Sleep(ctx, pause); pause = min(2*pause, last) {
		err = attempt()
	}
	return err
}

// Sleep waits for d. It reports false if the context ends first.
func Sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
