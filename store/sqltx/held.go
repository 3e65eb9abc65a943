package sqltx

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/redo-go/redo/store"
)

const (
	// savepoint separates the record from the caller's writes, for Discard. It is gone if the transaction has ended.
	// The name must not be one that a caller uses.
	savepoint = "redo_record_d1f6a80b3c9e4725a4b70c58e2396f1d"
	// releaseTimeout bounds a statement for a caller whose context may have ended.
	releaseTimeout = 5 * time.Second
)

var (
	errOver    = errors.New("sqltx: the transaction is over")
	errAborted = fmt.Errorf("sqltx: a failed statement has rolled the transaction back: %w", store.ErrUnavailable)
)

// An Engine ends an open transaction of a store. Held calls its methods, one at a time.
type Engine interface {
	// Settle writes the outcome of the record that the transaction holds. It returns store.ErrLost if the record has
	// expired.
	Settle(ctx context.Context, o store.Outcome) error
	// Gone reports whether err, which a statement about a savepoint returned, means that it does not exist.
	Gone(err error) bool
	// Restart reports whether the engine has rolled the whole transaction back because the caller's statement failed
	// with err. Restart has then begun another transaction on the same connection, so that no later statement is
	// committed by itself.
	Restart(err error) bool
	// Failure translates the error of a statement after which nothing was committed.
	Failure(ctx context.Context, err error) error
	// Commit commits, returns the translated error, and frees the ID and the connection with any result.
	Commit(ctx context.Context) error
	// Rollback rolls back, and frees the ID and the connection. The transaction may have ended.
	Rollback()
}

// A Held is an open transaction that holds a record: it implements [store.Tx]. Make one with Hold.
type Held struct {
	engine Engine
	store  store.Store
	claim  store.Claim
	fence  uint64
	begun  *sql.Tx
	shown  *Tx
	over   bool
}

// Hold returns the Held of a transaction in which the store st has taken the claim's record under a fence. The
// caller's writes come after it. If it returns an error, the transaction is as it was.
func Hold(ctx context.Context, st store.Store, tx *sql.Tx, c store.Claim, fence uint64, e Engine) (*Held, error) {
	if _, err := tx.ExecContext(ctx, "SAVEPOINT "+savepoint); err != nil {
		return nil, err
	}
	shown := New(tx)
	shown.restart = e.Restart
	return &Held{engine: e, store: st, claim: c, fence: fence, begun: tx, shown: shown}, nil
}

// Tx implements [store.Tx].
func (h *Held) Tx() *Tx { return h.shown }

// Commit implements [store.Tx].
func (h *Held) Commit(ctx context.Context, o store.Outcome) error {
	return h.settle(ctx, o, "RELEASE SAVEPOINT "+savepoint)
}

// Discard implements [store.Tx].
func (h *Held) Discard(ctx context.Context, o store.Outcome) error {
	return h.settle(ctx, o, "ROLLBACK TO SAVEPOINT "+savepoint)
}

// Rollback implements [store.Tx].
func (h *Held) Rollback(ctx context.Context) error {
	if h.over {
		return nil
	}
	return h.rollback(ctx, nil)
}

// settle runs the statement that ends the savepoint, writes the outcome, and commits.
func (h *Held) settle(ctx context.Context, o store.Outcome, end string) error {
	if h.over {
		return errOver
	}
	err := cmp.Or(o.Validate(), ctx.Err())
	if err == nil && h.shown.RollbackRefused() {
		err = fmt.Errorf("sqltx: %w: a rollback was asked for", store.ErrTxEnded)
	}
	if err == nil && h.shown.isAborted() {
		err = errAborted
	}
	if err != nil {
		return h.rollback(ctx, err)
	}
	h.over = true
	if _, err = h.begun.ExecContext(ctx, end); h.engine.Gone(err) {
		return h.ended(ctx)
	}
	if err == nil {
		err = h.engine.Settle(ctx, o)
	}
	if err != nil {
		h.engine.Rollback()
		return h.engine.Failure(ctx, err)
	}
	return h.engine.Commit(ctx)
}

// rollback undoes everything. It returns cause, unless the transaction was ended by its user.
func (h *Held) rollback(ctx context.Context, cause error) error {
	h.over = true
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTimeout)
	defer cancel()
	if h.shown.isAborted() {
		h.engine.Rollback()
		// The record is visible if its user had committed the transaction before the engine rolled another one back.
		if rec, err := h.store.Find(last, h.claim.ID); err == nil && rec.Fence == h.fence {
			return store.SettleEnded(ctx, h.store, h.claim)
		}
		return cause
	}
	if _, err := h.begun.ExecContext(last, "RELEASE SAVEPOINT "+savepoint); h.engine.Gone(err) {
		return h.ended(ctx)
	}
	h.engine.Rollback()
	return cause
}

// ended settles a transaction that its user has ended with a statement. database/sql does not report that.
func (h *Held) ended(ctx context.Context) error {
	h.engine.Rollback()
	return store.SettleEnded(ctx, h.store, h.claim)
}
