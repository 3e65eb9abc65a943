package ledger

import (
	"bytes"
	"cmp"
	"context"
	"iter"
	"slices"
	"sync"
	"time"

	"github.com/redo-go/redo/store"
)

// Interfaces that a Store implements.
var (
	_ store.TxStore[*Tx] = (*Store)(nil)
	_ store.Waiter       = (*Store)(nil)
	_ store.Lister       = (*Store)(nil)
	_ store.Forgetter    = (*Store)(nil)
)

// A Store keeps entries and records. Create one with New. All methods may be called concurrently.
type Store struct {
	*store.Poller // Wait

	mu      sync.Mutex
	single  bool
	fence   uint64 // the last one granted, for any ID; a rollback does not free it
	entries map[string]int
	records map[store.ID]store.Record // without ReadAt
	held    map[store.ID]bool         // by open transactions
	changed chan struct{}             // closed and replaced by every change of records or held
}

// New returns an empty store.
func New() *Store {
	s := &Store{
		entries: map[string]int{},
		records: map[store.ID]store.Record{},
		held:    map[store.ID]bool{},
		changed: make(chan struct{}),
	}
	s.Poller = store.Poll(s)
	return s
}

// NewSingleWriter returns an empty store that has one open transaction at a time, for which all writes wait.
func NewSingleWriter() *Store {
	s := New()
	s.single = true
	return s
}

// Entries counts the committed entries of that name.
func (s *Store) Entries(entry string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.entries[entry]
}

// Reserve implements store.Store.
func (s *Store) Reserve(ctx context.Context, c store.Claim) (store.Grant, error) {
	return s.claim(ctx, c, func(r store.Record, v store.Verdict, now time.Time) {
		if v == store.Acquired {
			s.deleteExpired(2, now)
		}
		s.records[c.ID] = r
		s.wake()
	})
}

// claim judges a claim, and calls write with the record that it owns.
func (s *Store) claim(
	ctx context.Context, c store.Claim, write func(r store.Record, v store.Verdict, now time.Time),
) (store.Grant, error) {
	if err := cmp.Or(ctx.Err(), c.Validate()); err != nil {
		return store.Grant{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		now := time.Now()
		r, verdict := s.judge(c, now)
		if !verdict.Owned() {
			return store.Grant{Verdict: verdict, Record: r}, nil
		}
		if s.single && len(s.held) > 0 {
			if err := s.wait(ctx); err != nil {
				return store.Grant{}, err
			}
			continue
		}
		c.Meta = bytes.Clone(c.Meta)
		s.fence++
		r = r.Claimed(c, verdict, s.fence, now)
		write(r, verdict, now)
		return store.Grant{Verdict: verdict, Lease: r.Lease(), Record: detach(r, now)}, nil
	}
}

// judge returns the verdict on a claim, and the record. A record that a transaction holds has only its ID and state.
func (s *Store) judge(c store.Claim, now time.Time) (store.Record, store.Verdict) {
	if s.held[c.ID] {
		return store.Record{ID: c.ID, State: store.StatePending}, store.InFlight
	}
	r, _ := s.read(c.ID, now)
	return r, store.Judge(r, c, now)
}

// Extend implements store.Store.
func (s *Store) Extend(ctx context.Context, l store.Lease, d time.Duration, meta []byte) error {
	if err := l.ValidateExtend(d, meta); err != nil {
		return err
	}
	return s.move(ctx, l, func(r store.Record, now time.Time) {
		s.records[l.ID] = r.Extended(d, bytes.Clone(meta), now)
	})
}

// Complete implements store.Store.
func (s *Store) Complete(ctx context.Context, l store.Lease, o store.Outcome) error {
	if err := o.Validate(); err != nil {
		return err
	}
	o.Result = bytes.Clone(o.Result)
	return s.move(ctx, l, func(r store.Record, now time.Time) { s.records[l.ID] = r.Settled(o, now) })
}

// Release implements store.Store.
func (s *Store) Release(ctx context.Context, l store.Lease) error {
	return s.move(ctx, l, func(store.Record, time.Time) { delete(s.records, l.ID) })
}

// move calls f with the lease's pending record.
func (s *Store) move(ctx context.Context, l store.Lease, f func(r store.Record, now time.Time)) error {
	return s.locked(ctx, l.ID, func(now time.Time) error {
		r, ok := s.read(l.ID, now)
		if !ok || !r.PendingUnder(l.Fence) {
			return store.ErrLost
		}
		f(r, now)
		return nil
	})
}

// Forget implements store.Forgetter.
func (s *Store) Forget(ctx context.Context, l store.Lease) error {
	return s.locked(ctx, l.ID, func(now time.Time) error {
		r, ok := s.read(l.ID, now)
		if !ok || r.State == store.StatePending || r.Fence != l.Fence {
			return store.ErrLost
		}
		delete(s.records, l.ID)
		return nil
	})
}

// locked calls f as soon as no transaction prevents a change of the ID's record.
func (s *Store) locked(ctx context.Context, id store.ID, f func(now time.Time) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		if !s.held[id] && (!s.single || len(s.held) == 0) {
			defer s.wake()
			return f(time.Now())
		}
		if err := s.wait(ctx); err != nil {
			return err
		}
	}
}

// Find implements store.Store.
func (s *Store) Find(ctx context.Context, id store.ID) (store.Record, error) {
	if err := cmp.Or(ctx.Err(), id.Validate()); err != nil {
		return store.Record{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	r, ok := s.read(id, time.Now())
	if !ok {
		return store.Record{}, store.ErrNotFound
	}
	return r, nil
}

// Purge implements store.Store.
func (s *Store) Purge(ctx context.Context, limit int) (purged int, err error) {
	if err := store.ValidatePurge(limit); err != nil {
		return 0, err
	}
	err = s.locked(ctx, store.ID{}, func(now time.Time) error {
		purged = s.deleteExpired(limit, now)
		return nil
	})
	return purged, err
}

// deleteExpired deletes at most limit expired records that no transaction holds, and returns how many.
func (s *Store) deleteExpired(limit int, now time.Time) (n int) {
	for id, r := range s.records {
		if n < limit && !s.held[id] && r.Expired(now) {
			delete(s.records, id)
			n++
		}
	}
	return n
}

// Pending implements store.Lister.
func (s *Store) Pending(ctx context.Context, scope string) iter.Seq2[store.Record, error] {
	return func(yield func(store.Record, error) bool) {
		for _, r := range s.pending(scope) {
			if ctx.Err() != nil || !yield(r, nil) {
				break
			}
		}
		if err := ctx.Err(); err != nil {
			yield(store.Record{}, err)
		}
	}
}

func (s *Store) pending(scope string) (list []store.Record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	for id := range s.records {
		r, ok := s.read(id, now)
		if ok && r.State == store.StatePending && (scope == "" || r.ID.Scope == scope) {
			list = append(list, r)
		}
	}
	slices.SortFunc(list, func(a, b store.Record) int {
		return cmp.Or(a.CreatedAt.Compare(b.CreatedAt), cmp.Compare(a.Fence, b.Fence))
	})
	return list
}

// read returns the record as it is now. An expired one is absent.
func (s *Store) read(id store.ID, now time.Time) (store.Record, bool) {
	r, ok := s.records[id]
	if !ok || r.Expired(now) {
		return store.Record{}, false
	}
	return detach(r, now), true
}

// wait releases the lock until something changes or the context ends.
func (s *Store) wait(ctx context.Context) error {
	changed := s.changed
	s.mu.Unlock()
	defer s.mu.Lock()
	select {
	case <-changed:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *Store) wake() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// detach returns the record as it is read now, with copies of its bytes.
func detach(r store.Record, now time.Time) store.Record {
	r.Result, r.Meta, r.ReadAt = bytes.Clone(r.Result), bytes.Clone(r.Meta), now
	return r
}
