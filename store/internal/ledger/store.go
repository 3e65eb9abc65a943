package ledger

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
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
	mu      sync.Mutex
	single  bool
	fence   uint64 // the last one given out, for any ID; no rollback takes it back
	entries map[string]int
	records map[store.ID]store.Record // without ReadAt
	held    map[store.ID]store.Record // by open transactions, as they will commit them
	changed chan struct{}             // closed, and made anew, by every change of records or held
}

// New returns an empty store.
func New() *Store {
	return &Store{
		entries: map[string]int{},
		records: map[store.ID]store.Record{},
		held:    map[store.ID]store.Record{},
		changed: make(chan struct{}),
	}
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
		r = s.claimed(r, verdict, c, now)
		s.records[c.ID] = r
		s.wake()
		return store.Grant{Verdict: verdict, Lease: r.Lease(), Record: detach(r, now)}, nil
	}
}

// judge says what a claim meets, and returns the record that stands. Of one that a transaction holds it tells only
// that it is pending.
func (s *Store) judge(c store.Claim, now time.Time) (store.Record, store.Verdict) {
	if r, ok := s.held[c.ID]; ok {
		known := store.Record{ID: c.ID, State: store.StatePending}
		if r.Fingerprint != c.Fingerprint {
			return known, store.Mismatch
		}
		return known, store.InFlight
	}
	r, ok := s.look(c.ID, now)
	switch {
	case !ok:
		return store.Record{}, store.Acquired
	case r.Fingerprint != c.Fingerprint:
		return r, store.Mismatch
	case r.State == store.StateComplete:
		return r, store.Complete
	case r.State == store.StateFailed:
		return r, store.Failed
	case r.LeaseLeft() > 0:
		return r, store.InFlight
	default:
		return r, store.TakenOver
	}
}

// claimed returns what the record becomes by a claim that owns it.
func (s *Store) claimed(r store.Record, v store.Verdict, c store.Claim, now time.Time) store.Record {
	if v == store.Acquired {
		r = store.Record{ID: c.ID, Fingerprint: c.Fingerprint, State: store.StatePending, Meta: bytes.Clone(c.Meta), CreatedAt: now}
	}
	s.fence++
	r.Fence = s.fence
	r.ExpiresAt = expiry(now, c.Retention)
	return leased(r, c.Lease, now)
}

// Extend implements store.Store.
func (s *Store) Extend(ctx context.Context, l store.Lease, d time.Duration, meta []byte) error {
	if err := (store.Claim{ID: l.ID, Lease: d, Retention: store.Forever, Meta: meta}).Validate(); err != nil {
		return err
	}
	return s.move(ctx, l, func(r store.Record, now time.Time) {
		if meta != nil {
			r.Meta = bytes.Clone(meta)
		}
		s.records[l.ID] = leased(r, d, now)
	})
}

// Complete implements store.Store.
func (s *Store) Complete(ctx context.Context, l store.Lease, o store.Outcome) error {
	if err := o.Validate(); err != nil {
		return err
	}
	return s.move(ctx, l, func(r store.Record, now time.Time) { s.records[l.ID] = settled(r, o, now) })
}

// Release implements store.Store.
func (s *Store) Release(ctx context.Context, l store.Lease) error {
	return s.move(ctx, l, func(store.Record, time.Time) { delete(s.records, l.ID) })
}

// move moves the lease's pending record on.
func (s *Store) move(ctx context.Context, l store.Lease, f func(r store.Record, now time.Time)) error {
	return s.locked(ctx, l.ID, func(now time.Time) error {
		r, ok := s.look(l.ID, now)
		if !ok || r.State != store.StatePending || r.Fence != l.Fence {
			return store.ErrLost
		}
		f(r, now)
		return nil
	})
}

// Forget implements store.Forgetter.
func (s *Store) Forget(ctx context.Context, l store.Lease) error {
	return s.locked(ctx, l.ID, func(now time.Time) error {
		r, ok := s.look(l.ID, now)
		if !ok || r.State == store.StatePending || r.Fence != l.Fence {
			return store.ErrLost
		}
		delete(s.records, l.ID)
		return nil
	})
}

// locked calls f once no transaction is in the way of a change of the ID's record.
func (s *Store) locked(ctx context.Context, id store.ID, f func(now time.Time) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		if _, ok := s.held[id]; !ok && (!s.single || len(s.held) == 0) {
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
	r, ok := s.look(id, time.Now())
	if !ok {
		return store.Record{}, store.ErrNotFound
	}
	return r, nil
}

// Purge implements store.Store. What a transaction holds is passed by.
func (s *Store) Purge(ctx context.Context, limit int) (purged int, err error) {
	if limit < 1 {
		return 0, fmt.Errorf("%w: the limit of a purge is %d, it must be at least 1", store.ErrInvalid, limit)
	}
	err = s.locked(ctx, store.ID{}, func(now time.Time) error {
		for id, r := range s.records {
			if _, held := s.held[id]; !held && expired(r, now) && purged < limit {
				delete(s.records, id)
				purged++
			}
		}
		return nil
	})
	return purged, err
}

// Wait implements store.Waiter.
func (s *Store) Wait(ctx context.Context, id store.ID, fence uint64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		r, ok := s.look(id, time.Now())
		if err := ctx.Err(); err != nil || !ok || r.State != store.StatePending || r.Fence != fence {
			return err
		}
		next, cancel := context.WithCancel(ctx)
		if !r.ExpiresAt.IsZero() {
			cancel()
			next, cancel = context.WithTimeout(ctx, r.ExpiresAt.Sub(r.ReadAt))
		}
		_ = s.wait(next)
		cancel()
	}
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
		r, ok := s.look(id, now)
		if ok && r.State == store.StatePending && (scope == "" || r.ID.Scope == scope) {
			list = append(list, r)
		}
	}
	slices.SortFunc(list, func(a, b store.Record) int {
		return cmp.Or(a.CreatedAt.Compare(b.CreatedAt), cmp.Compare(a.Fence, b.Fence))
	})
	return list
}

// look reads a record; an expired one is absent.
func (s *Store) look(id store.ID, now time.Time) (store.Record, bool) {
	r, ok := s.records[id]
	if !ok || expired(r, now) {
		return store.Record{}, false
	}
	return detach(r, now), true
}

// wait lets go of the lock until something changes or the context ends.
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
