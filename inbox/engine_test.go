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

// An engine is a small store.TxStore: rows in memory beside the records, both written by a commit or neither. It serves
// one ID a test, or the fences that it foretells are wrong.
type engine struct {
	*memstore.Store

	mu        sync.Mutex
	open      map[store.ID]bool
	rows      map[string]int
	before    func()            // called before Begin
	committed func(error) error // what Commit says, given what came of it
	refuse    error             // what Commit fails with, having done nothing
	byUser    bool              // the handler has committed
	orphan    bool              // its commit leaves the record as it was, as when the store can't be reached
}

var errByUser = errors.Join(store.ErrTxEnded, store.ErrUnknown)

// commit is what a handler must not call.
func (e *engine) commit(added rows) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for k, n := range maps.All(added) {
		e.rows[k] += n
	}
	e.byUser = true
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
	return &engineTx{e: e, claim: c, added: rows{}}, store.Grant{Verdict: verdict, Lease: store.Lease{ID: c.ID, Fence: rec.Fence + 1}, Record: rec}, nil
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
	return tx.end(func() error {
		if tx.e.byUser {
			return tx.endedByUser(ctx, o)
		}
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
	return tx.end(func() error { return tx.settle(ctx, o) })
}

func (tx *engineTx) Rollback(ctx context.Context) error {
	err := tx.end(func() error {
		if tx.e.byUser {
			return tx.endedByUser(ctx, store.UnknownOutcome())
		}
		return nil
	})
	if errors.Is(err, store.ErrTxEnded) {
		return err
	}
	return nil
}

// endedByUser settles the record as store.ErrTxEnded has it.
func (tx *engineTx) endedByUser(ctx context.Context, o store.Outcome) error {
	tx.e.byUser = false
	if tx.e.orphan {
		return errByUser
	}
	if string(o.Result) == string(store.UnknownOutcome().Result) { // under a fence that nobody was told
		if _, err := tx.e.Store.Reserve(ctx, tx.claim); err != nil {
			return err
		}
	}
	return errors.Join(errByUser, tx.settle(ctx, o))
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

func (tx *engineTx) end(f func() error) error {
	tx.e.mu.Lock()
	defer tx.e.mu.Unlock()
	if !tx.e.open[tx.claim.ID] {
		return store.ErrLost
	}
	delete(tx.e.open, tx.claim.ID)
	err := f()
	if tx.e.committed != nil {
		err = tx.e.committed(err)
	}
	return err
}
