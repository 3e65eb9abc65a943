package sim

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/redo-go/redo/store"
)

// A work is an open transaction of a database. Handlers write rows through it.
type work struct {
	db        *database
	claim     store.Claim
	grant     store.Grant
	rows      []string
	committed []func() // called under the lock of the database
	refused   bool     // its user has asked for a rollback
	ended     chan struct{}
	over      bool
}

// Insert writes the row of an effect.
func (w *work) Insert(operation string) { w.rows = append(w.rows, operation) }

// OnCommit adds a function that makes writes of another engine part of the commit.
func (w *work) OnCommit(f func()) { w.committed = append(w.committed, f) }

// Commit refuses: only the store ends the transaction.
func (w *work) Commit() error { return store.ErrTxEnded }

// Rollback refuses too, and the transaction can't be committed any more.
func (w *work) Rollback() error {
	w.refused = true
	return store.ErrTxEnded
}

// held returns the verdict on a claim while a transaction holds the ID.
func (d *database) held(rec store.Record, c store.Claim, now time.Time) (store.Grant, bool) {
	tx := d.open[c.ID]
	if tx == nil {
		return store.Grant{}, false
	}
	g := store.Grant{Verdict: store.InFlight, Record: store.Record{ID: c.ID, State: store.StatePending}}
	if tx.claim.Fingerprint != c.Fingerprint {
		g.Verdict = store.Mismatch
	}
	if rec.State != 0 {
		g.Record = read(rec, now)
	}
	return g, true
}

// Begin implements store.TxStore.
func (d *database) Begin(ctx context.Context, c store.Claim) (store.Tx[*work], store.Grant, error) {
	if err := cmp.Or(ctx.Err(), c.Validate()); err != nil {
		return nil, store.Grant{}, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	now := d.now()
	rec := d.record(c.ID, now)
	if g, held := d.held(rec, c, now); held {
		return nil, g, nil
	}
	c.Lease, c.Owner, c.Meta = 0, "", nil
	v := store.Judge(rec, c, now)
	if !v.Owned() {
		return nil, store.Grant{Verdict: v, Record: read(rec, now)}, nil
	}
	rec = rec.Claimed(c, v, d.nextFence(), now)
	w := &work{
		db: d, claim: c, ended: make(chan struct{}),
		grant: store.Grant{Verdict: v, Lease: rec.Lease(), Record: read(rec, now)},
	}
	d.open[c.ID] = w
	return &transaction{w}, w.grant, nil
}

// A transaction is the store's side of a work.
type transaction struct{ *work }

// Tx implements store.Tx.
func (t *transaction) Tx() *work { return t.work }

// Commit implements store.Tx.
func (t *transaction) Commit(ctx context.Context, o store.Outcome) error {
	return t.settle(ctx, o, t.rows)
}

// Discard implements store.Tx.
func (t *transaction) Discard(ctx context.Context, o store.Outcome) error {
	return t.settle(ctx, o, nil)
}

func (t *transaction) settle(ctx context.Context, o store.Outcome, rows []string) error {
	d := t.db
	d.mu.Lock()
	defer d.mu.Unlock()
	if t.over {
		return store.ErrUnavailable
	}
	defer t.end()
	if err := cmp.Or(ctx.Err(), o.Validate()); err != nil {
		return err
	}
	now := d.now()
	rec := t.grant.Record
	switch {
	case t.refused:
		return store.ErrTxEnded
	case rec.Expired(now):
		return store.ErrLost
	}
	o.Result = slices.Clone(o.Result)
	// A failover loses the record and the rows together.
	before, fence := d.records[t.claim.ID], d.fence
	d.records[t.claim.ID] = rec.Settled(o, now)
	for _, operation := range rows {
		d.rows[operation]++
		d.written(operation)
	}
	if rows != nil {
		for _, f := range t.committed {
			f()
		}
	}
	d.note(false, func() {
		d.fence = fence
		if d.records[t.claim.ID] = before; before.State == 0 {
			delete(d.records, t.claim.ID)
		}
		for _, operation := range rows {
			d.forget(operation)
		}
	})
	return nil
}

// Rollback implements store.Tx.
func (t *transaction) Rollback(context.Context) error {
	t.db.mu.Lock()
	defer t.db.mu.Unlock()
	if t.over {
		return nil
	}
	t.end()
	return nil
}

// abort ends the transaction of a process that has died.
func (w *work) abort() {
	w.db.mu.Lock()
	defer w.db.mu.Unlock()
	if !w.over {
		w.end()
	}
}

// end frees the ID. The lock is held.
func (w *work) end() {
	w.over = true
	delete(w.db.open, w.claim.ID)
	close(w.ended)
}
