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
// [store.Forgetter] and [store.Dropper], and may be used concurrently; make one with [Open].
//
// An error that wraps store.ErrUnavailable means that nothing was changed, one that wraps store.ErrUnknown
// that the change may be on disk: the commit that carried it failed late, or the context ended while it ran.
type Store struct {
	path   string
	info   fs.FileInfo
	db     *bbolt.DB
	file   *os.File // db's
	epoch  uint64
	delay  time.Duration
	commit func(*bbolt.Tx) error

	wake    chan struct{} // one token: a group is due
	turn    chan struct{} // filled by who writes the file, the writer or a transaction: first come, first served
	quit    chan struct{} // closed when Close is called
	stopped chan struct{} // closed when the writer has gone

	mu       sync.Mutex
	clock    clock
	fence    uint64 // the last fence given out
	fences   uint64 // the last fence that the file has reserved
	overlay  map[string]*cell
	held     map[string]*hold
	open     *transaction // that has the turn
	current  *group       // takes changes
	gen      uint64       // counts the times that cells left the overlay, or a hold ended
	suspect  bool         // the last commit's outcome is unknown, and no later one has settled it
	broken   error        // set for good when the file can't be trusted any more
	closing  bool
	closeErr error
	failures int // commits failed in a row
	timer    *time.Timer
	armed    bool
	waiters  map[string][]chan struct{}
	stats    Stats

	stuck bool // bbolt's locks are held for good; whose turn it is may look, and Open before
}

var (
	_ store.Store              = (*Store)(nil)
	_ store.TxStore[*bbolt.Tx] = (*Store)(nil)
	_ store.Waiter             = (*Store)(nil)
	_ store.Checker            = (*Store)(nil)
	_ store.Lister             = (*Store)(nil)
	_ store.Forgetter          = (*Store)(nil)
	_ store.Dropper            = (*Store)(nil)
)

// Reserve implements [store.Store]. A verdict other than Acquired and TakenOver costs no commit.
func (s *Store) Reserve(ctx context.Context, c store.Claim) (store.Grant, error) {
	if err := c.Validate(); err != nil {
		return store.Grant{}, fmt.Errorf("boltstore: %w", err)
	}
	meta := clone(c.Meta)
	var verdict store.Verdict
	var stands *record
	var at int64
	err := s.transition(ctx, c.ID, claiming, func(cur *record, now int64) (change, error) {
		v, next := reserve(cur, c, meta, now, s.fence+1)
		verdict, stands, at = v, cur, now
		if next == nil {
			return change{}, nil
		}
		s.fence++
		stands = next
		return change{made: true, next: next}, nil
	})
	if err != nil {
		return store.Grant{}, err
	}
	g := store.Grant{Verdict: verdict, Record: stands.export(c.ID, at)}
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
		return fmt.Errorf("boltstore: %w: the meta has %d bytes, at most %d are allowed", store.ErrInvalid, len(meta), store.MaxMeta)
	}
	meta = clone(meta)
	return s.transition(ctx, l.ID, durable, func(cur *record, now int64) (change, error) {
		next, err := extend(cur, l.Fence, d, meta, now)
		return change{made: err == nil, next: next}, err
	})
}

// Complete implements [store.Store]. A lazy outcome is checked like any other and seen by every later call;
// Complete then returns without waiting for a commit, unless a change of the same record is being committed,
// which it waits for.
func (s *Store) Complete(ctx context.Context, l store.Lease, o store.Outcome) error {
	if err := checkOutcome(o); err != nil {
		return err
	}
	// The copy and its checksum are made out here: for a large result they take longer than all the rest.
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
		return fmt.Errorf("boltstore: %w: the result has %d bytes, at most %d are allowed", store.ErrInvalid, len(o.Result), maxContent-store.MaxMeta)
	}
	return nil
}

// Release implements [store.Store].
func (s *Store) Release(ctx context.Context, l store.Lease) error {
	return s.transition(ctx, l.ID, durable, func(cur *record, _ int64) (change, error) {
		err := release(cur, l.Fence)
		return change{made: err == nil}, err
	})
}

// Forget implements [store.Forgetter].
func (s *Store) Forget(ctx context.Context, l store.Lease) error {
	return s.transition(ctx, l.ID, durable, func(cur *record, _ int64) (change, error) {
		err := forget(cur, l.Fence)
		return change{made: err == nil}, err
	})
}

// Find implements [store.Store].
func (s *Store) Find(ctx context.Context, id store.ID) (store.Record, error) {
	r, _, err := s.look(ctx, id)
	return r, err
}

// look is Find, and tells of a transaction that holds the ID, whether a record stands or not.
func (s *Store) look(ctx context.Context, id store.ID) (r store.Record, h *hold, err error) {
	var found *record
	var at int64
	err = s.transition(ctx, id, reading, func(cur *record, now int64) (change, error) {
		found, at, h = cur, now, nil
		if len(s.held) > 0 {
			h = s.held[string(appendKey(nil, id))]
		}
		return change{}, nil
	})
	switch {
	case err != nil:
		return store.Record{}, nil, err
	case found == nil:
		return store.Record{}, h, fmt.Errorf("boltstore: %w", store.ErrNotFound)
	}
	return found.export(id, at), h, nil
}

// Check implements [store.Checker]: it returns an error when the store is closed, its last commit failed and
// none has succeeded since, or its file is no longer at its path.
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

// Close commits what is queued, lazy outcomes included, and closes the file. Afterwards every method returns
// an error that wraps store.ErrUnavailable. Calls that run at the same time are answered. It returns an error
// when lazy outcomes could not be made durable. Calling it again returns the same.
//
// It does not wait for a transaction whose owner has not begun to end it, but returns an error wrapping [ErrTxOpen]. The
// owner's Commit and Discard are refused from then on, so that only Rollback is left; when the transaction is over,
// what is queued is committed, the file is closed, and another Close says so.
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
		return fmt.Errorf("boltstore: %q: %w: the file is closed when it is over", s.path, ErrTxOpen)
	}
	<-s.stopped
	return s.closeErr
}

// usable returns why the store can't be used, nil when it can. The mutex is held.
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
	if r.unseen() {
		return store.Record{ID: id, State: store.StatePending, ReadAt: time.Unix(0, now)}
	}
	return store.Record{
		ID:          id,
		Fingerprint: r.fingerprint,
		State:       r.state,
		Result:      clone(r.result),
		Meta:        clone(r.meta),
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
