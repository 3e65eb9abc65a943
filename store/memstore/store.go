package memstore

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"hash/maphash"
	"sync/atomic"
	"time"

	"github.com/redo-go/redo/store"
)

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
	*store.Poller // implements store.Waiter

	now    func() time.Time
	seed   maphash.Seed
	shards [shardCount]shard

	// fence is the last fence granted, for any ID. With one counter the fences of each ID grow, and the store keeps
	// nothing of removed records. It is incremented under the lock of the ID's shard.
	fence atomic.Uint64

	purgeFrom atomic.Uint32 // the shard at which the next Purge begins, so that small limits reach them all

	closed atomic.Bool
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
	s := &Store{now: time.Now, seed: maphash.MakeSeed()}
	s.Poller = store.Poll(s)
	s.Pushed(true)
	for i := range s.shards {
		s.shards[i].records, s.shards[i].pending = make(map[store.ID]*entry), make(map[*entry]struct{})
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
	s.closed.Store(true)
	for i := range s.shards {
		sh := &s.shards[i]
		sh.mu.Lock()
		sh.closed, sh.records, sh.pending, sh.expiry = true, nil, nil, nil
		sh.mu.Unlock()
	}
	s.Pushed(true) // each waiter reads once more, and gets the error
	return nil
}

// Reserve implements store.Store.
func (s *Store) Reserve(ctx context.Context, c store.Claim) (store.Grant, error) {
	if err := cmp.Or(ctx.Err(), c.Validate()); err != nil {
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
		e = &entry{born: s.fence.Add(1)}
		sh.records[c.ID], sh.pending[e] = e, struct{}{}
		sh.put(e, stored.Claimed(c, verdict, e.born, now))
	case store.TakenOver:
		sh.put(e, stored.Claimed(c, verdict, s.fence.Add(1), now))
		s.Wake(c.ID)
	default:
		return store.Grant{Verdict: verdict, Record: e.read(now)}, nil
	}
	return store.Grant{Verdict: verdict, Lease: e.rec.Lease(), Record: e.read(now)}, nil
}

// Extend implements store.Store. A negative d and store.Forever are refused with store.ErrInvalid.
func (s *Store) Extend(ctx context.Context, l store.Lease, d time.Duration, meta []byte) error {
	if err := cmp.Or(ctx.Err(), l.ValidateExtend(d, meta)); err != nil {
		return err
	}
	meta = bytes.Clone(meta)
	return s.change(l, true, func(sh *shard, e *entry, now time.Time) { sh.put(e, e.rec.Extended(d, meta, now)) })
}

// Complete implements store.Store. A lazy outcome is written like any other.
func (s *Store) Complete(ctx context.Context, l store.Lease, o store.Outcome) error {
	if err := cmp.Or(ctx.Err(), o.Validate()); err != nil {
		return err
	}
	o.Result = bytes.Clone(o.Result)
	return s.change(l, true, func(sh *shard, e *entry, now time.Time) {
		sh.put(e, e.rec.Settled(o, now))
		delete(sh.pending, e)
		s.Wake(l.ID)
	})
}

// Release implements store.Store.
func (s *Store) Release(ctx context.Context, l store.Lease) error { return s.remove(ctx, l, true) }

// Forget implements store.Forgetter.
func (s *Store) Forget(ctx context.Context, l store.Lease) error { return s.remove(ctx, l, false) }

func (s *Store) remove(ctx context.Context, l store.Lease, pending bool) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return s.change(l, pending, func(sh *shard, e *entry, _ time.Time) {
		sh.remove(e)
		s.Wake(l.ID)
	})
}

// change calls f with the entry of the lease, whose record is pending or settled.
func (s *Store) change(l store.Lease, pending bool, f func(sh *shard, e *entry, now time.Time)) error {
	sh := s.shard(l.ID)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	now := s.now()
	e, err := sh.find(l.ID, now)
	switch {
	case err != nil:
		return err
	case e == nil || (e.rec.State == store.StatePending) != pending || e.rec.Fence != l.Fence:
		return store.ErrLost
	}
	f(sh, e, now)
	return nil
}

// Find implements store.Store. An ID outside its limits is refused with store.ErrInvalid.
func (s *Store) Find(ctx context.Context, id store.ID) (store.Record, error) {
	if err := cmp.Or(ctx.Err(), id.Validate()); err != nil {
		return store.Record{}, err
	}
	r, err := s.record(id)
	return detach(r), err
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
	if err := ctx.Err(); err != nil || !s.closed.Load() {
		return err
	}
	return errClosed
}

// detach returns r with copies of its bytes, nil staying nil and empty staying empty.
func detach(r store.Record) store.Record {
	r.Result = bytes.Clone(r.Result)
	r.Meta = bytes.Clone(r.Meta)
	return r
}
