package boltstore

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"time"

	"github.com/redo-go/redo/internal/envelope"
	"github.com/redo-go/redo/internal/wallclock"
	"github.com/redo-go/redo/store"
	"go.etcd.io/bbolt"
)

// A Store is an open file. It implements [store.TxStore], [store.Waiter], [store.Checker], [store.Lister],
// [store.Forgetter] and [store.Dropper], and may be used concurrently; create one with [Open].
//
// An error that wraps store.ErrUnavailable means that nothing was changed. One that wraps store.ErrUnknown means
// that the change may be on disk: its commit failed late, or the context ended during the commit.
type Store struct {
	path   string
	info   fs.FileInfo
	db     *bbolt.DB
	file   *os.File // db's
	epoch  uint64
	delay  time.Duration
	commit func(*bbolt.Tx) error

	wake    chan struct{} // one token: a group is due
	writing chan struct{} // the write lock: the writer and the transactions get it in the order of asking
	quit    chan struct{} // closed when Close is called
	stopped chan struct{} // closed when the writer has ended

	mu       sync.Mutex
	clock    wallclock.Clock
	fence    uint64 // the last fence given out
	fences   uint64 // the last fence that the file has reserved
	overlay  map[string]*row
	claims   map[string]*txClaim
	open     *transaction // that has the write lock
	current  *group       // takes changes
	gen      uint64       // counts the times that rows left the overlay, or a txClaim ended
	suspect  bool         // the last commit's outcome is unknown, and no later one has succeeded
	broken   error        // set for good when the file can't be trusted any more
	closing  bool
	closeErr error
	failures int // commits that failed in a row
	timer    *time.Timer
	waiting  int // calls of Wait
	stats    Stats

	poller *store.Poller
	last   uint64 // changes in the last group; only the goroutine that commits uses it

	// Guarded by the write lock.
	draft draft
	stuck bool // a panic left bbolt's locks held
}

var _ store.Engine = (*Store)(nil)
var _ store.TxStore[*Tx] = (*Store)(nil)

// Reserve implements [store.Store]. A verdict other than Acquired and TakenOver costs no commit. Reserve returns
// without waiting for the commit of a lazy claim, unless a change of the same record is being committed.
func (s *Store) Reserve(ctx context.Context, c store.Claim) (store.Grant, error) {
	if err := c.Validate(); err != nil {
		return store.Grant{}, err
	}
	c.Meta = bytes.Clone(c.Meta)
	var verdict store.Verdict
	var seen *record
	var at time.Time
	how := mode{claims: true, lazy: c.Lazy}
	err := s.transition(ctx, c.ID, how, func(cur *record, now time.Time) (next *record, made bool, err error) {
		if verdict, next = reserve(cur, c, now, s.fence+1); next == nil {
			seen, at = cur, now
			return nil, false, nil
		}
		s.fence++
		seen, at = next, now
		return next, true, nil
	})
	if err != nil {
		return store.Grant{}, err
	}
	return seen.grant(verdict, c.ID, at), nil
}

// reserve decides a claim. next is nil if nothing changes. fence is the lease's if there is one.
func reserve(cur *record, c store.Claim, now time.Time, fence uint64) (v store.Verdict, next *record) {
	if cur == nil {
		cur = &record{metaSum: checksum(c.Meta)}
	}
	if v = store.Judge(cur.Record, c, now); !v.Owned() {
		return v, nil
	}
	taken := *cur
	taken.Record = envelope.Bounded(cur.Claimed(c, v, fence, now))
	return v, &taken
}

// Extend implements [store.Store]. A negative d, d of store.Forever, and a meta longer than store.MaxMeta are
// store.ErrInvalid.
func (s *Store) Extend(ctx context.Context, l store.Lease, d time.Duration, meta []byte) error {
	if err := l.ValidateExtend(d, meta); err != nil {
		return err
	}
	meta = bytes.Clone(meta)
	return s.change(ctx, l, mode{}, func(r *record, now time.Time) {
		r.Record = envelope.Bounded(r.Extended(d, meta, now))
		if meta != nil {
			r.metaSum = checksum(meta)
		}
	})
}

// change calls f with a copy of the lease's pending record, which f changes.
func (s *Store) change(ctx context.Context, l store.Lease, how mode, f func(r *record, now time.Time)) error {
	return s.transition(ctx, l.ID, how, func(cur *record, now time.Time) (*record, bool, error) {
		if cur == nil || !cur.PendingUnder(l.Fence) {
			return nil, false, store.ErrLost
		}
		next := *cur
		f(&next, now)
		return &next, true, nil
	})
}

// Complete implements [store.Store]. A lazy outcome is checked like any other and visible to every later call.
// Complete then returns without waiting for a commit, unless a change of the same record is being committed.
func (s *Store) Complete(ctx context.Context, l store.Lease, o store.Outcome) error {
	if err := o.ValidateUpTo(maxResult); err != nil {
		return err
	}
	// The copy and its checksum are made outside the mutex, since they take long for a large result.
	o.Result = bytes.Clone(o.Result)
	sum := checksum(o.Result)
	return s.change(ctx, l, mode{lazy: o.Lazy}, func(r *record, now time.Time) { r.settle(o, sum, now) })
}

// settle writes the outcome, whose result has the checksum sum, to a record that is not shared yet.
func (r *record) settle(o store.Outcome, sum uint32, now time.Time) {
	r.Record, r.resultSum = envelope.Bounded(r.Settled(o, now)), sum
}

// Release implements [store.Store].
func (s *Store) Release(ctx context.Context, l store.Lease) error {
	return s.remove(ctx, l, true)
}

// Forget implements [store.Forgetter].
func (s *Store) Forget(ctx context.Context, l store.Lease) error {
	return s.remove(ctx, l, false)
}

// remove removes the lease's record, which is pending or settled.
func (s *Store) remove(ctx context.Context, l store.Lease, pending bool) error {
	return s.transition(ctx, l.ID, mode{}, func(cur *record, _ time.Time) (*record, bool, error) {
		if cur == nil || cur.pending() != pending || cur.Fence != l.Fence {
			return nil, false, store.ErrLost
		}
		return nil, true, nil
	})
}

// Find implements [store.Store].
func (s *Store) Find(ctx context.Context, id store.ID) (store.Record, error) {
	var found *record
	var at time.Time
	err := s.transition(ctx, id, mode{}, func(cur *record, now time.Time) (*record, bool, error) {
		if found, at = cur, now; cur == nil {
			return nil, false, store.ErrNotFound
		}
		return nil, false, nil
	})
	if err != nil {
		return store.Record{}, err
	}
	return found.export(id, at), nil
}

// Check implements [store.Checker]. It returns an error if the store is closed, if its last commit failed, or if
// its file is no longer at its path.
func (s *Store) Check(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	err, failures := s.usable(), s.failures
	s.mu.Unlock()
	switch {
	case err != nil:
		return err
	case failures > 0:
		return fmt.Errorf("boltstore: %q: the last commit failed: %w", s.path, store.ErrUnavailable)
	}
	info, err := os.Stat(s.path)
	if err != nil {
		return fmt.Errorf("boltstore: %w: %w", err, store.ErrUnavailable)
	}
	if !os.SameFile(info, s.info) {
		return fmt.Errorf("boltstore: %q: the file was replaced: %w", s.path, store.ErrUnavailable)
	}
	return nil
}

// Close commits the queued changes, lazy ones included, and closes the file. Concurrent calls return before Close
// does. Afterwards every method returns an error that wraps store.ErrUnavailable. Close returns an error if lazy
// changes could not be made durable. A second call returns the same.
//
// Close does not wait for a transaction that its owner has not begun to end. It then returns an error wrapping
// [ErrTxOpen]. From then on the owner's Commit and Discard are refused, and only Rollback remains. When the
// transaction has ended, the queued changes are committed and the file is closed. Another Close waits for that.
func (s *Store) Close() error {
	s.mu.Lock()
	if !s.closing {
		s.closing = true
		close(s.quit)
		s.timer.Stop()
		s.poller.Pushed(true)
	}
	open := s.open != nil && !s.open.over
	s.mu.Unlock()
	s.signal()
	if open {
		return fmt.Errorf("boltstore: %q: %w: the file is closed when the transaction has ended", s.path, ErrTxOpen)
	}
	<-s.stopped
	return s.closeErr
}

// usable returns why the store can't be used, or nil. The mutex is held.
func (s *Store) usable() error {
	switch {
	case s.broken != nil:
		return s.broken
	case s.closing:
		return fmt.Errorf("boltstore: %q is closed: %w", s.path, store.ErrUnavailable)
	}
	return nil
}

// grant returns the grant of a claim that has found or written the record. It copies the record, outside of the mutex.
func (r *record) grant(v store.Verdict, id store.ID, now time.Time) store.Grant {
	g := store.Grant{Verdict: v, Record: r.export(id, now)}
	if v.Owned() {
		g.Lease = g.Record.Lease()
	}
	return g
}

// export copies the record for the caller.
func (r *record) export(id store.ID, now time.Time) store.Record {
	if r.uncommitted() {
		return store.Record{ID: id, State: store.StatePending, ReadAt: now}
	}
	c := r.Record
	c.ID, c.Result, c.Meta, c.ReadAt = id, bytes.Clone(r.Result), bytes.Clone(r.Meta), now
	return c
}
