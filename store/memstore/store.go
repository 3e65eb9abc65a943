package memstore

import (
	"bytes"
	"context"
	"fmt"
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redo-go/redo/store"
)

// Interfaces that a Store implements.
var (
	_ store.Store     = (*Store)(nil)
	_ store.Waiter    = (*Store)(nil)
	_ store.Checker   = (*Store)(nil)
	_ store.Lister    = (*Store)(nil)
	_ store.Forgetter = (*Store)(nil)
)

// errClosed is the error of every method after Close.
var errClosed = fmt.Errorf("memstore: closed: %w", store.ErrUnavailable)

// A Store keeps records in memory. Create one with New. All methods may be called concurrently. Only Wait blocks. No
// method returns store.ErrUnknown.
//
// Instants in the records have Go's monotonic reading, so that a change of the machine's clock moves neither leases nor
// expiry.
type Store struct {
	now    func() time.Time
	seed   maphash.Seed
	shards [shardCount]shard

	// fence is the last fence granted, for any ID. With one counter the fences of each ID grow, and the store keeps
	// nothing of removed records. It is incremented under the lock of the ID's shard.
	fence atomic.Uint64

	purgeFrom atomic.Uint32 // the shard at which the next Purge begins, so that small limits reach them all

	closing sync.Once
	closed  chan struct{}
}

// An Option changes how New sets a Store up.
type Option interface{ apply(*Store) }

type optionFunc func(*Store)

func (f optionFunc) apply(s *Store) { f(s) }

// WithClock makes now the store's clock, for tests with different clocks. Nil means time.Now, the default. now must
// be safe for concurrent use. It must not call the store, because the store calls it under a lock. If the clock jumps
// past an expiry, Wait returns only when as much real time has passed.
func WithClock(now func() time.Time) Option {
	return optionFunc(func(s *Store) {
		if now == nil {
			now = time.Now
		}
		s.now = now
	})
}

// New returns an empty Store.
func New(opts ...Option) *Store {
	s := &Store{now: time.Now, seed: maphash.MakeSeed(), closed: make(chan struct{})}
	for i := range s.shards {
		s.shards[i].init()
	}
	for _, o := range opts {
		if o != nil {
			o.apply(s)
		}
	}
	return s
}

// Close drops every record and ends every Wait. Afterwards all methods return an error that wraps
// store.ErrUnavailable; closing again does nothing. It always returns nil.
func (s *Store) Close() error {
	s.closing.Do(func() {
		for i := range s.shards {
			s.shards[i].close()
		}
		close(s.closed)
	})
	return nil
}

// Reserve implements store.Store.
func (s *Store) Reserve(ctx context.Context, c store.Claim) (store.Grant, error) {
	if err := ctx.Err(); err != nil {
		return store.Grant{}, err
	}
	if err := c.Validate(); err != nil {
		return store.Grant{}, err
	}
	// Copies are made outside the lock, on the way in and on the way out: a stored slice is never written to.
	c.Meta = bytes.Clone(c.Meta)
	g, err := s.reserve(c)
	if err != nil {
		return store.Grant{}, err
	}
	g.Record = detach(g.Record)
	return g, nil
}

func (s *Store) reserve(c store.Claim) (store.Grant, error) {
	sh := s.shard(c.ID)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	now := s.now()
	e, err := sh.find(c.ID, now)
	if err != nil {
		return store.Grant{}, err
	}

	var stored store.Record
	if e != nil {
		stored = e.rec
	}
	verdict := store.Judge(stored, c, now)
	switch verdict {
	case store.Acquired:
		sh.removeExpired(freedByReserve, now)
		e = sh.insert(&entry{born: s.fence.Add(1), rec: store.Record{
			ID:          c.ID,
			Fingerprint: c.Fingerprint,
			State:       store.StatePending,
			Meta:        c.Meta,
			CreatedAt:   now,
		}})
		e.rec.Fence = e.born
	case store.TakenOver:
		e.rec.Fence = s.fence.Add(1)
		e.wake()
	default:
		return store.Grant{Verdict: verdict, Record: e.read(now)}, nil
	}
	e.rec.Owner = c.Owner
	e.rec.LeaseUntil = leaseEnd(now, c.Lease)
	sh.expireAt(e, later(expiry(now, c.Retention), e.rec.LeaseUntil))
	return store.Grant{Verdict: verdict, Lease: e.rec.Lease(), Record: e.read(now)}, nil
}

// Extend implements store.Store. A negative d and store.Forever are refused with store.ErrInvalid.
func (s *Store) Extend(ctx context.Context, l store.Lease, d time.Duration, meta []byte) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	// The rules for a claim's lease and meta are the rules here.
	if err := (store.Claim{ID: l.ID, Lease: d, Retention: store.Forever, Meta: meta}).Validate(); err != nil {
		return err
	}
	meta = bytes.Clone(meta)

	sh := s.shard(l.ID)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	now := s.now()
	e, err := sh.pendingUnder(l, now)
	if err != nil {
		return err
	}
	e.rec.LeaseUntil = leaseEnd(now, d)
	if meta != nil {
		e.rec.Meta = meta
	}
	sh.expireAt(e, later(e.rec.ExpiresAt, e.rec.LeaseUntil))
	return nil
}

// Complete implements store.Store. A lazy outcome is written like any other.
func (s *Store) Complete(ctx context.Context, l store.Lease, o store.Outcome) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := o.Validate(); err != nil {
		return err
	}
	result := bytes.Clone(o.Result)

	sh := s.shard(l.ID)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	now := s.now()
	e, err := sh.pendingUnder(l, now)
	if err != nil {
		return err
	}
	e.rec.State = store.StateComplete
	if o.Failed {
		e.rec.State = store.StateFailed
	}
	e.rec.Result, e.rec.Owner = result, ""
	e.rec.LeaseUntil = time.Time{}
	if o.Retention != 0 {
		sh.expireAt(e, expiry(now, o.Retention))
	}
	delete(sh.pending, e)
	e.wake()
	return nil
}

// Release implements store.Store.
func (s *Store) Release(ctx context.Context, l store.Lease) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	sh := s.shard(l.ID)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	e, err := sh.pendingUnder(l, s.now())
	if err != nil {
		return err
	}
	sh.remove(e)
	return nil
}

// Forget implements store.Forgetter.
func (s *Store) Forget(ctx context.Context, l store.Lease) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	sh := s.shard(l.ID)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	e, err := sh.find(l.ID, s.now())
	if err != nil {
		return err
	}
	if e == nil || e.rec.State == store.StatePending || e.rec.Fence != l.Fence {
		return store.ErrLost
	}
	sh.remove(e)
	return nil
}

// Find implements store.Store. An ID outside its limits is refused with store.ErrInvalid.
func (s *Store) Find(ctx context.Context, id store.ID) (store.Record, error) {
	if err := ctx.Err(); err != nil {
		return store.Record{}, err
	}
	if err := id.Validate(); err != nil {
		return store.Record{}, err
	}
	r, err := s.record(id)
	if err != nil {
		return store.Record{}, err
	}
	return detach(r), nil
}

func (s *Store) record(id store.ID) (store.Record, error) {
	sh := s.shard(id)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	now := s.now()
	e, err := sh.find(id, now)
	if err != nil {
		return store.Record{}, err
	}
	if e == nil {
		return store.Record{}, store.ErrNotFound
	}
	return e.read(now), nil
}

// Check implements store.Checker: a Store is ready until it is closed.
func (s *Store) Check(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case <-s.closed:
		return errClosed
	default:
		return nil
	}
}

// detach returns r with copies of its bytes, nil staying nil and empty staying empty.
func detach(r store.Record) store.Record {
	r.Result = bytes.Clone(r.Result)
	r.Meta = bytes.Clone(r.Meta)
	return r
}
