package inbox

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"time"

	"github.com/redo-go/redo/store"
)

// A TxStore is what a transactional inbox needs of its store.
type TxStore[T any] interface {
	store.TxStore[T]
	store.Lister
	store.Forgetter
}

// A TxHandler does what an event asks for, in a transaction that also settles the event. It must not commit or roll back
// tx itself, by a deferred call either, and should do nothing outside of tx: what it does there happens again when the
// transaction fails.
//
// One that commits or rolls back all the same is found out, see store.ErrTxEnded, and [Logger] tells of it. Work that it
// committed is not done again: with a nil error the event is handled, and after an error or a panic it becomes a dead letter
// at once that is Unknown, which the delivery is acknowledged with and which [Inbox.Redrive] refuses. Work that it rolled back
// is a failed attempt, whatever it returned. A process that dies after the handler's own commit, or that can't reach its
// store from then on, leaves nothing that says so, and is followed by another attempt.
type TxHandler[T any] func(ctx context.Context, tx T, ev Event) error

// A Transactional is an [Inbox] whose handlers write in the transaction that settles the event: both are committed or
// neither is. Create one with [NewTransactional]. T is the engine's transaction, such as pgx.Tx.
type Transactional[T any] struct {
	in *Inbox
	st TxStore[T]
}

// NewTransactional returns an inbox over a store that holds records in the engine's own transactions. Its errors are
// those of [New].
func NewTransactional[T any](st TxStore[T], opts ...Option) (*Transactional[T], error) {
	in, err := New(st, opts...)
	if err != nil {
		return nil, err
	}
	return &Transactional[T]{in, st}, nil
}

// Receive is [Inbox.Receive], with the handler's writes and the event's record in one commit. The attempt is counted in a
// commit before it. When the answer to the commit was lost, and the store can't tell yet, the code is
// taxonomy.Unavailable: the next delivery is told.
func (t *Transactional[T]) Receive(ctx context.Context, ev Event, h TxHandler[T]) (Receipt, error) {
	return t.in.receive(ctx, ev, note{}, within[T]{t, h})
}

// Handler is [Inbox.Handler].
func (t *Transactional[T]) Handler(identify Identify, h TxHandler[T]) http.Handler {
	return serve(identify, func(ctx context.Context, ev Event) (Receipt, error) { return t.Receive(ctx, ev, h) })
}

// DeadLetters is [Inbox.DeadLetters].
func (t *Transactional[T]) DeadLetters(ctx context.Context, source string) iter.Seq2[DeadLetter, error] {
	return t.in.DeadLetters(ctx, source)
}

// Redrive is [Inbox.Redrive].
func (t *Transactional[T]) Redrive(ctx context.Context, source, id string, h TxHandler[T]) (Receipt, error) {
	return t.in.redrive(ctx, source, id, within[T]{t, h})
}

// Reopen is [Inbox.Reopen].
func (t *Transactional[T]) Reopen(ctx context.Context, source, id string) error {
	return t.in.Reopen(ctx, source, id)
}

// Drop is [Inbox.Drop].
func (t *Transactional[T]) Drop(ctx context.Context, source, id string) error {
	return t.in.Drop(ctx, source, id)
}

// within is the mode of a Transactional. The record that counts the attempts stands without a lease, since the open
// transaction excludes others in its place; nothing is written beside the transaction while it is open, for which an
// engine with a single writer would wait.
type within[T any] struct {
	t *Transactional[T]
	h TxHandler[T]
}

func (within[T]) lease() time.Duration { return 0 }

func (w within[T]) attempt(ctx context.Context, a *attempt) error {
	tx, g, err := w.t.st.Begin(ctx, a.claim)
	if err != nil {
		return err
	}
	if !g.Verdict.Owned() {
		return w.overtaken(ctx, a, g)
	}
	if err := w.run(ctx, tx, a); err != nil {
		return err
	}
	visit, done := a.visit(ctx)
	defer done()
	err = tx.Commit(visit, a.outcome(false))
	if errors.Is(err, store.ErrTxEnded) {
		a.blame(ctx, err)
	}
	switch {
	case err == nil:
		return nil
	case errors.Is(err, store.ErrUnknown):
		a.own = g.Lease.Fence
		lost := a.confirm(visit, g.Lease, err)
		if lost != nil && committed(err) {
			return ended(err, nil)
		}
		return lost
	case errors.Is(err, store.ErrTxEnded):
		// Rolled back by the handler: nothing was done.
	case errors.Is(err, store.ErrUnavailable), errors.Is(err, store.ErrLost):
		return err
	}
	// Or the engine refuses what the handler wrote, as a deferred constraint does.
	return &handlerError{fmt.Errorf("commit: %w", err)}
}

// overtaken is the answer when another delivery has come in between the count and the transaction.
func (within[T]) overtaken(ctx context.Context, a *attempt, g store.Grant) error {
	r, err := a.answer(ctx, g)
	if err == nil {
		return &settledError{r}
	}
	return err
}

// A settledError carries the receipt of whoever came first.
type settledError struct{ receipt Receipt }

func (*settledError) Error() string { return "inbox: settled by another delivery" }

// run calls the handler in the transaction, and rolls it back unless the handler succeeds. The error is a *handlerError, or
// an *unknownError when there was nothing left to roll back.
func (w within[T]) run(ctx context.Context, tx store.Tx[T], a *attempt) (err error) {
	bounded, done := context.WithTimeout(ctx, w.t.in.timeout)
	defer done()
	returned := false
	defer func() {
		if returned && err == nil {
			return
		}
		if !returned {
			err = errPanicked
		}
		err = w.undo(ctx, tx, a, err)
		if returned {
			return
		}
		if u, ok := errors.AsType[*unknownError](err); ok {
			_, _ = a.setAside(ctx, u) // or the next delivery does
			return
		}
		a.note.err = err.Error()
		a.pause(ctx)
	}()
	err = w.h(bounded, tx.Tx(), a.ev)
	returned = true
	return err
}

// undo rolls back after the handler has failed, and says what became of it.
func (within[T]) undo(ctx context.Context, tx store.Tx[T], a *attempt, failed error) error {
	visit, done := a.visit(ctx)
	defer done()
	if err := tx.Rollback(visit); committed(err) {
		a.blame(ctx, err)
		return ended(err, failed)
	}
	return &handlerError{failed}
}
