package sim

import (
	"cmp"
	"context"
	"iter"
	"slices"
	"sync"
	"time"

	"github.com/redo-go/redo/store"
)

// A database is a simulated engine: records, and the effects of handlers as rows. It keeps the store contract, which
// TestDatabaseKeepsTheContract checks. It implements store.TxStore, store.Lister and store.Forgetter.
type database struct {
	now     func() time.Time       // its clock, which may jump
	bits    func() uint64          // random bits of a fence
	written func(operation string) // called after the commit of a row, under the lock
	lost    func(operation string) // called after a failover has lost a row, under the lock
	mu      sync.Mutex
	records map[store.ID]store.Record
	rows    map[string]int // effects by operation
	open    map[store.ID]*work
	fence   uint64
	log     []change // since the last checkpoint, oldest first
	logged  bool     // keep the log
}

// A change is a committed write that a failover can lose.
type change struct {
	undo func()
	lazy bool
}

func newDatabase(now func() time.Time, bits func() uint64) *database {
	return &database{
		now: now, bits: bits, written: func(string) {}, lost: func(string) {},
		records: map[store.ID]store.Record{}, rows: map[string]int{}, open: map[store.ID]*work{},
	}
}

// fenceBits are the random bits of a fence: a failover sets the counter back.
const fenceBits = 16

func (d *database) nextFence() uint64 {
	d.fence++
	return d.fence<<fenceBits | d.bits()&(1<<fenceBits-1)
}

// record returns the live record of an ID, or the zero Record.
func (d *database) record(id store.ID, now time.Time) store.Record {
	rec := d.records[id]
	if rec.State != 0 && rec.Expired(now) {
		return store.Record{}
	}
	return rec
}

// put writes a record. The zero State removes it. A lazy write keeps the fence if it is lost.
func (d *database) put(id store.ID, rec store.Record, lazy bool) {
	before, fence := d.records[id], d.fence
	if rec.State == 0 {
		delete(d.records, id)
	} else {
		d.records[id] = rec
	}
	d.note(lazy, func() {
		if !lazy {
			d.fence = fence
		}
		if before.State == 0 {
			delete(d.records, id)
			return
		}
		d.records[id] = before
	})
}

func (d *database) note(lazy bool, undo func()) {
	if d.logged {
		d.log = append(d.log, change{undo, lazy})
	}
}

// failover loses the last writes, at most n. If the standby is synchronous, only lazy writes are lost. It returns how
// many were.
func (d *database) failover(n int, synchronous bool) (lost int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for ; lost < n && len(d.log) > 0; lost++ {
		last := d.log[len(d.log)-1]
		if synchronous && !last.lazy {
			break
		}
		last.undo()
		d.log = d.log[:len(d.log)-1]
	}
	d.log = nil // the standby has the rest
	return lost
}

func read(rec store.Record, now time.Time) store.Record {
	rec.Result, rec.Meta, rec.ReadAt = slices.Clone(rec.Result), slices.Clone(rec.Meta), now
	return rec
}

// Reserve implements store.Store.
func (d *database) Reserve(ctx context.Context, c store.Claim) (store.Grant, error) {
	if err := cmp.Or(ctx.Err(), c.Validate()); err != nil {
		return store.Grant{}, err
	}
	c.Meta = slices.Clone(c.Meta)
	d.mu.Lock()
	defer d.mu.Unlock()
	now := d.now()
	rec := d.record(c.ID, now)
	if g, held := d.held(rec, c, now); held {
		return g, nil
	}
	v := store.Judge(rec, c, now)
	if v.Owned() {
		if v == store.Acquired {
			d.purge(2, now)
		}
		rec = rec.Claimed(c, v, d.nextFence(), now)
		d.put(c.ID, rec, c.Lazy)
		return store.Grant{Verdict: v, Lease: rec.Lease(), Record: read(rec, now)}, nil
	}
	return store.Grant{Verdict: v, Record: read(rec, now)}, nil
}

// A step returns the record that follows.
type step func(rec store.Record, now time.Time) store.Record

// change calls f with the record of a lease, once no transaction holds it.
func (d *database) change(ctx context.Context, l store.Lease, pending, lazy bool, f step) error {
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		d.mu.Lock()
		if tx := d.open[l.ID]; tx != nil {
			d.mu.Unlock()
			select {
			case <-tx.ended:
			case <-ctx.Done():
			}
			continue
		}
		now := d.now()
		rec := d.record(l.ID, now)
		ok := rec.State != 0 && (rec.State == store.StatePending) == pending && rec.Fence == l.Fence
		if ok {
			d.put(l.ID, f(rec, now), lazy)
		}
		d.mu.Unlock()
		if !ok {
			return store.ErrLost
		}
		return nil
	}
}

// Extend implements store.Store.
func (d *database) Extend(ctx context.Context, l store.Lease, lease time.Duration, meta []byte) error {
	renewal := store.Claim{ID: l.ID, Lease: lease, Retention: store.Forever, Meta: meta}
	if err := cmp.Or(ctx.Err(), renewal.Validate()); err != nil {
		return err
	}
	meta = slices.Clone(meta)
	return d.change(ctx, l, true, false, func(rec store.Record, now time.Time) store.Record {
		return rec.Extended(lease, meta, now)
	})
}

// Complete implements store.Store.
func (d *database) Complete(ctx context.Context, l store.Lease, o store.Outcome) error {
	if err := cmp.Or(ctx.Err(), o.Validate()); err != nil {
		return err
	}
	o.Result = slices.Clone(o.Result)
	return d.change(ctx, l, true, o.Lazy, func(rec store.Record, now time.Time) store.Record {
		return rec.Settled(o, now)
	})
}

// Release implements store.Store.
func (d *database) Release(ctx context.Context, l store.Lease) error {
	return d.change(ctx, l, true, false, func(store.Record, time.Time) store.Record { return store.Record{} })
}

// Forget implements store.Forgetter.
func (d *database) Forget(ctx context.Context, l store.Lease) error {
	return d.change(ctx, l, false, false, func(store.Record, time.Time) store.Record { return store.Record{} })
}

// Find implements store.Store.
func (d *database) Find(ctx context.Context, id store.ID) (store.Record, error) {
	if err := cmp.Or(ctx.Err(), id.Validate()); err != nil {
		return store.Record{}, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	now := d.now()
	rec := d.record(id, now)
	if rec.State == 0 {
		return store.Record{}, store.ErrNotFound
	}
	return read(rec, now), nil
}

// Purge implements store.Store.
func (d *database) Purge(ctx context.Context, limit int) (int, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	if limit < 1 {
		return 0, store.ErrInvalid
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.purge(limit, d.now()), nil
}

// purge removes expired records. No caller can see which ones.
func (d *database) purge(limit int, now time.Time) (n int) {
	for id, rec := range d.records {
		if n == limit {
			break
		}
		if rec.Expired(now) && d.open[id] == nil {
			delete(d.records, id)
			n++
		}
	}
	return n
}

// Pending implements store.Lister.
func (d *database) Pending(ctx context.Context, scope string) iter.Seq2[store.Record, error] {
	return func(yield func(store.Record, error) bool) {
		if err := ctx.Err(); err != nil {
			yield(store.Record{}, err)
			return
		}
		for _, rec := range d.pending(scope) {
			if err := ctx.Err(); err != nil {
				yield(store.Record{}, err)
				return
			}
			if !yield(rec, nil) {
				return
			}
		}
	}
}

func (d *database) pending(scope string) (list []store.Record) {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := d.now()
	for _, rec := range d.records {
		if rec.State == store.StatePending && (scope == "" || rec.ID.Scope == scope) && !rec.Expired(now) {
			list = append(list, read(rec, now))
		}
	}
	slices.SortFunc(list, func(a, b store.Record) int {
		return cmp.Or(a.CreatedAt.Compare(b.CreatedAt), cmp.Compare(a.Fence, b.Fence))
	})
	return list
}

// insert writes a row in a separate commit, for effects that are not in the transaction of their record.
func (d *database) insert(operation string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.write(operation)
}

func (d *database) write(operation string) {
	d.rows[operation]++
	d.note(false, func() { d.forget(operation) })
	d.written(operation)
}

func (d *database) forget(operation string) {
	d.rows[operation]--
	d.lost(operation)
}

// effects returns the committed rows of an operation.
func (d *database) effects(operation string) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.rows[operation]
}
