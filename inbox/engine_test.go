package inbox_test

import (
	"context"
	"errors"
	"maps"
	"sync"
	"time"

	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/memstore"
)

// An engine is a small store.TxStore: rows in memory beside the records. A commit writes both. It serves one ID in a
// test, because it predicts the fences.
type engine struct {
	*memstore.Store

	mu        sync.Mutex
	open      map[store.ID]bool
	rows      map[string]int
	before    func()            // called before Begin
	committed func(error) error // replaces the error of Commit
	refuse    error             // the error of a Commit that has done nothing
	ended     bool              // the handler has ended the transaction
}

// end commits the rows without the store, as the SQL text "COMMIT" does.
func (e *engine) end(added rows) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for k, n := range maps.All(added) {
		e.rows[k] += n
	}
	e.ended = true
}

func newEngine(st *memstore.Store) *engine {
	return &engine{Store: st, open: map[store.ID]bool{}, rows: map[string]int{}}
}

// crash ends all open transactions, as the death of their process does.
func (e *engine) crash() {
	e.mu.Lock()
	defer e.mu.Unlock()
	clear(e.open)
}

func (e *engine) Reserve(ctx context.Context, c store.Claim) (store.Grant, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.open[c.ID] {
		return store.Grant{Verdict: store.InFlight, Record: store.Record{ID: c.ID, State: store.StatePending}}, nil
	}
	return e.Store.Reserve(ctx, c)
}

func (e *engine) Begin(ctx context.Context, c store.Claim) (store.Tx[rows], store.Grant, error) {
	if e.before != nil {
		e.before()
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	rec, err := e.Find(ctx, c.ID)
	verdict := store.TakenOver
	switch {
	case errors.Is(err, store.ErrNotFound):
		verdict = store.Acquired
	case err != nil:
		return nil, store.Grant{}, err
	case e.open[c.ID], rec.State == store.StatePending && rec.LeaseLeft() > 0:
		verdict = store.InFlight
	case rec.State == store.StateComplete:
		verdict = store.Complete
	case rec.State == store.StateFailed:
		verdict = store.Failed
	}
	if !verdict.Owned() {
		return nil, store.Grant{Verdict: verdict, Record: rec}, nil
	}
	e.open[c.ID] = true
	g := store.Grant{Verdict: verdict, Lease: store.Lease{ID: c.ID, Fence: rec.Fence + 1}, Record: rec}
	return &engineTx{e: e, claim: c, added: rows{}}, g, nil
}

// rows is the engine's transaction.
type rows map[string]int

type engineTx struct {
	e     *engine
	claim store.Claim
	added rows
}

func (tx *engineTx) Tx() rows { return tx.added }

func (tx *engineTx) Commit(ctx context.Context, o store.Outcome) error {
	return tx.end(ctx, func() error {
		if tx.e.refuse != nil {
			return tx.e.refuse
		}
		if err := tx.settle(ctx, o); err != nil {
			return err
		}
		for k, n := range maps.All(tx.added) {
			tx.e.rows[k] += n
		}
		return nil
	})
}

func (tx *engineTx) Discard(ctx context.Context, o store.Outcome) error {
	return tx.end(ctx, func() error { return tx.settle(ctx, o) })
}

func (tx *engineTx) Rollback(ctx context.Context) error {
	err := tx.end(ctx, func() error { return nil })
	if errors.Is(err, store.ErrLost) {
		return nil
	}
	return err
}

func (tx *engineTx) settle(ctx context.Context, o store.Outcome) error {
	c := tx.claim
	c.Lease = time.Minute
	g, err := tx.e.Store.Reserve(ctx, c)
	if err != nil {
		return err
	}
	return tx.e.Complete(ctx, g.Lease, o)
}

func (tx *engineTx) end(ctx context.Context, f func() error) error {
	tx.e.mu.Lock()
	defer tx.e.mu.Unlock()
	if !tx.e.open[tx.claim.ID] {
		return store.ErrLost
	}
	delete(tx.e.open, tx.claim.ID)
	if tx.e.ended {
		tx.e.ended = false
		return store.SettleEnded(ctx, tx.e.Store, tx.claim)
	}
	err := f()
	if tx.e.committed != nil {
		err = tx.e.committed(err)
	}
	return err
}
