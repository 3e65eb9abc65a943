package boltstore

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"time"

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
	clock    clock
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
	waiters  map[string][]chan struct{}
	stats    Stats

	stuck bool // a panic left bbolt's locks held; guarded by the write lock
}

var (
	_ store.Store        = (*Store)(nil)
	_ store.TxStore[*Tx] = (*Store)(nil)
	_ store.Waiter       = (*Store)(nil)
	_ store.Checker      = (*Store)(nil)
	_ store.Lister       = (*Store)(nil)
	_ store.Forgetter    = (*Store)(nil)
	_ store.Dropper      = (*Store)(nil)
)

// Reserve implements [store.Store]. A verdict other than Acquired and TakenOver costs no commit.
func (s *Store) Reserve(ctx context.Context, c store.Claim) (store.Grant, error) {
	if err := c.Validate(); err != nil {
		return store.Grant{}, fmt.Errorf("boltstore: %w", err)
	}
	meta := clone(c.Meta)
	var verdict store.Verdict
	var seen *record
	var at int64
	err := s.transition(ctx, c.ID, claiming, func(cur *record, now int64) (change, error) {
		v, next := reserve(cur, c, meta, now, s.fence+1)
		verdict, seen, at = v, cur, now
		if next == nil {
			return change{}, nil
		}
		s.fence++
		seen = next
		return change{made: true, next: next}, nil
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
	switch {
	case d < 0 || d == store.Forever:
		return fmt.Errorf("boltstore: %w: the extension is %v, it must be neither negative nor Forever", store.ErrInvalid, d)
	case len(meta) > store.MaxMeta:
		return fmt.Errorf("boltstore: %w: the meta has %d bytes, at most %d are allowed",
			store.ErrInvalid, len(meta), store.MaxMeta)
	}
	meta = clone(meta)
	return s.transition(ctx, l.ID, durable, func(cur *record, now int64) (change, error) {
		next, err := extend(cur, l.Fence, d, meta, now)
		return change{made: err == nil, next: next}, err
	})
}

// Complete implements [store.Store]. A lazy outcome is checked like any other and visible to every later call.
// Complete then returns without waiting for a commit, unless a change of the same record is being committed.
func (s *Store) Complete(ctx context.Context, l store.Lease, o store.Outcome) error {
	if err := checkOutcome(o); err != nil {
		return err
	}
	// The copy and its checksum are made outside the mutex, since they take long for a large result.
	result := clone(o.Result)
	sum := checksum(result)
	how := durable
	if o.Lazy {
		how = lazily
	}
	return s.transition(ctx, l.ID, how, func(cur *record, now int64) (change, error) {
		next, err := complete(cur, l.Fence, o, result, sum, now)
		return change{made: err == nil, next: next}, err
	})
}

func checkOutcome(o store.Outcome) error {
	if err := o.Validate(); err != nil {
		return fmt.Errorf("boltstore: %w", err)
	}
	if len(o.Result) > maxContent-store.MaxMeta {
		return fmt.Errorf("boltstore: %w: the result has %d bytes, at most %d are allowed",
			store.ErrInvalid, len(o.Result), maxContent-store.MaxMeta)
	}
	return nil
}

// Release implements [store.Store].
func (s *Store) Release(ctx context.Context, l store.Lease) error {
	return s.remove(ctx, l, func(cur *record) bool { return cur.owned(l.Fence) })
}

// Forget implements [store.Forgetter].
func (s *Store) Forget(ctx context.Context, l store.Lease) error {
	return s.remove(ctx, l, func(cur *record) bool { return cur != nil && !cur.pending() && cur.fence == l.Fence })
}

// remove removes the record if the lease fits, by the function, and returns ErrLost otherwise.
func (s *Store) remove(ctx context.Context, l store.Lease, fits func(cur *record) bool) error {
	return s.transition(ctx, l.ID, durable, func(cur *record, _ int64) (change, error) {
		if !fits(cur) {
			return change{}, store.ErrLost
		}
		return change{made: true}, nil
	})
}

// Find implements [store.Store].
func (s *Store) Find(ctx context.Context, id store.ID) (store.Record, error) {
	r, _, err := s.find(ctx, id)
	return r, err
}

// find is Find. It also returns the claim of a transaction that holds the ID, with ErrNotFound too.
func (s *Store) find(ctx context.Context, id store.ID) (r store.Record, c *txClaim, err error) {
	var found *record
	var at int64
	err = s.transition(ctx, id, reading, func(cur *record, now int64) (change, error) {
		found, at, c = cur, now, nil
		if len(s.claims) > 0 {
			c = s.claims[string(appendKey(nil, id))]
		}
		return change{}, nil
	})
	switch {
	case err != nil:
		return store.Record{}, nil, err
	case found == nil:
		return store.Record{}, c, fmt.Errorf("boltstore: %w", store.ErrNotFound)
	}
	return found.export(id, at), c, nil
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

// Close commits the queued changes, lazy outcomes included, and closes the file. Concurrent calls return before Close
// does. Afterwards every method returns an error that wraps store.ErrUnavailable. Close returns an error if lazy
// outcomes could not be made durable. A second call returns the same.
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
		s.notifyAll()
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

// export copies the record for the caller.
func (r *record) export(id store.ID, now int64) store.Record {
	if r.uncommitted() {
		return store.Record{ID: id, State: store.StatePending, ReadAt: time.Unix(0, now)}
	}
	return store.Record{
		ID:          id,
		Fingerprint: r.fingerprint,
		State:       r.state,
		Result:      clone(r.result),
		Meta:        clone(r.meta),
		Owner:       r.owner,
		Fence:       r.fence,
		LeaseUntil:  instant(r.lease),
		CreatedAt:   time.Unix(0, r.created),
		ExpiresAt:   instant(r.expires),
		ReadAt:      time.Unix(0, now),
	}
}

func instant(ns int64) time.Time {
	if ns == 0 {
		return time.Time{}
	}
	return time.Unix(0, ns)
}
