package pebblestore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/redo-go/redo/internal/envelope"
	"github.com/redo-go/redo/internal/wallclock"
	"github.com/redo-go/redo/store"
)

// A Store is an open directory. It implements [store.Waiter], [store.Checker], [store.Lister], [store.Forgetter] and
// [store.Dropper], and may be used concurrently; create one with [Open].
//
// An error that wraps store.ErrUnavailable means that nothing was changed. One that wraps store.ErrUnknown means
// that the change may be on disk: its sync failed, or the context ended during the sync.
type Store struct {
	*store.Poller // implements store.Waiter

	path  string
	info  os.FileInfo // the directory's; nil on a file system of a test
	fs    vfs.FS
	dir   *pebble.Lock
	epoch uint64
	delay time.Duration

	maxBatch int

	wake    chan struct{} // one token: a group is due
	applied chan *group   // groups that await their sync, in their order
	stopped chan struct{} // closed when no group is left after Close, or the store is broken
	stop    func()        // closes stopped once
	blocked chan struct{} // closed when a goroutine holds Pebble's locks for good
	block   func()        // closes blocked once
	close   func()        // shut, once

	reading sync.RWMutex // held by readers of db, and for its closing
	db      *pebble.DB   // nil after Close

	mu         sync.Mutex
	clock      wallclock.Clock
	fence      uint64 // the last fence given out
	fences     uint64 // the last fence that the directory has reserved, or that a group reserves
	reserved   uint64 // the last fence that the directory has reserved
	overlay    map[string]*row
	filter     *filter // nil until the keys are read
	nextFilter *filter // that is being filled; nil: none
	filterMax  int     // keys after which it is made anew
	recent     recent
	current    *group   // takes changes
	unsettled  []*group // handed to Pebble, in their order
	broken     error    // set for good when a write has failed
	closing    bool
	closeErr   error
	timer      *time.Timer
	groups     uint64

	ctx     context.Context // ends at Close
	cancel  context.CancelFunc
	helpers sync.WaitGroup

	due        atomic.Int64          // nothing that can be read expires before this instant
	unread     atomic.Int64          // the first expiry of what could not be read
	background atomic.Pointer[error] // of the last flush or compaction
	failed     chan struct{}         // takes a value if a flush or compaction fails
	stalled    atomic.Bool           // writes wait for a flush or compaction
}

var _ store.Engine = (*Store)(nil)

// Reserve implements [store.Store]. A verdict other than Acquired and TakenOver costs no write. Reserve returns without
// waiting for the disk if the claim is lazy, unless a change of the same record is being synced.
func (s *Store) Reserve(ctx context.Context, c store.Claim) (store.Grant, error) {
	if err := c.Validate(); err != nil {
		return store.Grant{}, fmt.Errorf("pebblestore: %w", err)
	}
	c.Meta = bytes.Clone(c.Meta)
	var verdict store.Verdict
	var seen *record
	var at time.Time
	how := durable
	if c.Lazy {
		how = claimingLazily
	}
	err := s.transition(ctx, c.ID, how, func(cur *record, now time.Time) (next *record, made bool, err error) {
		if cur == nil {
			cur = &record{}
		}
		seen, at = cur, now
		if verdict = store.Judge(cur.Record, c, now); !verdict.Owned() {
			return nil, false, nil
		}
		s.fence++
		seen = &record{Record: envelope.Bounded(cur.Claimed(c, verdict, s.fence, now))}
		return seen, true, nil
	})
	if err != nil {
		return store.Grant{}, err
	}
	g := store.Grant{Verdict: verdict, Record: seen.export(c.ID, at)}
	if verdict.Owned() {
		g.Lease = g.Record.Lease()
	}
	return g, nil
}

// Extend implements [store.Store]. A negative d, d of store.Forever, and a meta longer than store.MaxMeta are
// store.ErrInvalid.
func (s *Store) Extend(ctx context.Context, l store.Lease, d time.Duration, meta []byte) error {
	if err := l.ValidateExtend(d, meta); err != nil {
		return fmt.Errorf("pebblestore: %w", err)
	}
	meta = bytes.Clone(meta)
	return s.change(ctx, l, durable, func(r store.Record, now time.Time) store.Record { return r.Extended(d, meta, now) })
}

// Complete implements [store.Store]. A lazy outcome is checked like any other and visible to every later call.
// Complete then returns without waiting for the disk, unless a change of the same record is being synced.
func (s *Store) Complete(ctx context.Context, l store.Lease, o store.Outcome) error {
	if err := o.ValidateUpTo(maxResult); err != nil {
		return fmt.Errorf("pebblestore: %w", err)
	}
	o.Result = bytes.Clone(o.Result)
	how := durable
	if o.Lazy {
		how = lazily
	}
	return s.change(ctx, l, how, func(r store.Record, now time.Time) store.Record { return r.Settled(o, now) })
}

// change replaces the lease's pending record with the result of f.
func (s *Store) change(
	ctx context.Context, l store.Lease, how mode, f func(store.Record, time.Time) store.Record,
) error {
	return s.transition(ctx, l.ID, how, func(cur *record, now time.Time) (*record, bool, error) {
		if cur == nil || !cur.PendingUnder(l.Fence) {
			return nil, false, store.ErrLost
		}
		return &record{Record: envelope.Bounded(f(cur.Record, now))}, true, nil
	})
}

// Release implements [store.Store].
func (s *Store) Release(ctx context.Context, l store.Lease) error { return s.remove(ctx, l, true) }

// Forget implements [store.Forgetter].
func (s *Store) Forget(ctx context.Context, l store.Lease) error { return s.remove(ctx, l, false) }

// remove removes the lease's record, which is pending or settled.
func (s *Store) remove(ctx context.Context, l store.Lease, pending bool) error {
	return s.transition(ctx, l.ID, durable, func(cur *record, _ time.Time) (*record, bool, error) {
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
	err := s.transition(ctx, id, durable, func(cur *record, now time.Time) (*record, bool, error) {
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

// export copies the record for the caller.
func (r *record) export(id store.ID, now time.Time) store.Record {
	c := r.Record
	c.ID, c.Result, c.Meta, c.ReadAt = id, bytes.Clone(r.Result), bytes.Clone(r.Meta), now
	return c
}

// Check implements [store.Checker]. It returns an error if the store is closed or broken, if Pebble's last flush or
// compaction failed, or if the directory is no longer at its path.
func (s *Store) Check(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := s.ready(); err != nil {
		return err
	}
	if err := s.background.Load(); err != nil {
		return s.explain(fmt.Errorf("pebble's last flush or compaction failed: %w", *err))
	}
	if _, err := s.fs.Stat(s.fs.PathJoin(s.path, formatName)); err != nil {
		return s.explain(err)
	}
	if s.info == nil {
		return nil
	}
	info, err := os.Stat(s.path)
	if err == nil && !os.SameFile(info, s.info) {
		err = errors.New("the directory was replaced")
	}
	return s.explain(err)
}

// Close writes the queued changes, lazy ones included, and closes the directory. Concurrent calls return before
// Close does. Afterwards every method returns an error that wraps store.ErrUnavailable. Close returns an error if lazy
// changes could not be made durable, or if the directory could not be closed. A second call returns the same.
func (s *Store) Close() error {
	s.mu.Lock()
	s.closing = true
	s.cancel()
	s.timer.Stop()
	s.Pushed(true)
	s.mu.Unlock()
	s.signal()
	<-s.stopped
	s.close()
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closeErr
}

// usable returns why the store can't be used, or nil. The mutex is held.
func (s *Store) usable() error {
	switch {
	case s.broken != nil:
		return s.broken
	case s.closing:
		return fmt.Errorf("pebblestore: %q is closed: %w", s.path, store.ErrUnavailable)
	}
	return nil
}

// notify wakes the waiters of the record. The mutex is held.
func (s *Store) notify(key string) {
	if !s.Waited() {
		return
	}
	id, _ := envelope.ParseKey([]byte(key)) // put has it from an ID
	s.Wake(id)
}

// ready is usable for callers that don't hold the mutex.
func (s *Store) ready() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.usable()
}
