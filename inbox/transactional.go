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

// A TxStore has the methods that a transactional inbox needs.
type TxStore[T any] interface {
	store.TxStore[T]
	store.Lister
}

// A TxHandler makes the effect of an event, in a transaction that also settles the event. It must not end tx. It
// should have no effect outside of tx, because such an effect is repeated if the transaction fails.
//
// The Commit and the Rollback of tx return store.ErrTxEnded. After a refused Rollback the attempt has failed, with
// any result of the handler. If the handler ends the transaction in another way, for example by the SQL text
// "COMMIT", its effect is unknown. The event then becomes a dead letter that is Unknown, and is never handled
// again. A process that dies after such a commit, or that can't reach its store, leaves no record of it, and
// another attempt follows.
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

// Receive is [Inbox.Receive], with the handler's writes and the event's record in one commit. The attempt is counted
// in a commit before it. If the response to the commit was lost and the record does not show it yet, the code is
// taxonomy.Unavailable, and the next delivery gets the outcome.
func (t *Transactional[T]) Receive(ctx context.Context, ev Event, h TxHandler[T]) (Receipt, error) {
	return t.in.receive(ctx, ev, call{}, within[T]{t, h})
}

// Handler is [Inbox.Handler].
func (t *Transactional[T]) Handler(identify Identify, h TxHandler[T]) http.Handler {
	return t.in.serve(identify, func(ctx context.Context, ev Event) (Receipt, error) { return t.Receive(ctx, ev, h) })
}

// DeadLetters is [Inbox.DeadLetters].
func (t *Transactional[T]) DeadLetters(ctx context.Context, source string) iter.Seq2[FailedEvent, error] {
	return t.in.DeadLetters(ctx, source)
}

// Waiting is [Inbox.Waiting].
func (t *Transactional[T]) Waiting(ctx context.Context, source string) iter.Seq2[FailedEvent, error] {
	return t.in.Waiting(ctx, source)
}

// Redrive is [Inbox.Redrive].
func (t *Transactional[T]) Redrive(ctx context.Context, source, id string, h TxHandler[T]) (Receipt, error) {
	return t.in.redrive(ctx, source, id, within[T]{t, h})
}

// Drop is [Inbox.Drop].
func (t *Transactional[T]) Drop(ctx context.Context, source, id string) error {
	return t.in.Drop(ctx, source, id)
}

// within is the mode of a Transactional. The record that counts the attempts has no lease, because the open
// transaction excludes others. While the transaction is open, the inbox writes nothing outside of it, because an
// engine with a single writer would wait for it.
type within[T any] struct {
	t *Transactional[T]
	h TxHandler[T]
}

func (w within[T]) set() bool { return w.h != nil }

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
	write, done := a.in.storeContext(ctx)
	defer done()
	err = tx.Commit(write, a.outcome())
	switch {
	case err == nil:
		return nil
	case endedUnknown(err):
		return &unknownError{err}
	case errors.Is(err, store.ErrUnknown):
		return a.confirm(write, g.Lease, err)
	case errors.Is(err, store.ErrTxEnded):
		// The handler asked for a rollback, so nothing was committed.
	case errors.Is(err, store.ErrUnavailable), errors.Is(err, store.ErrLost):
		return err
	}
	// The engine may also refuse the handler's writes, for example by a deferred constraint.
	return &handlerError{fmt.Errorf("commit: %w", err)}
}

// overtaken returns the result of another delivery that came between the count and the transaction.
func (within[T]) overtaken(ctx context.Context, a *attempt, g store.Grant) error {
	r, err := a.resolve(ctx, g)
	if err == nil {
		return &settledError{r}
	}
	return err
}

// run calls the handler in the transaction, and rolls it back unless the handler succeeds. A handler that does not
// return, because of a panic or Goexit, has failed.
func (w within[T]) run(ctx context.Context, tx store.Tx[T], a *attempt) error {
	bounded, done := context.WithTimeout(ctx, w.t.in.timeout)
	defer done()
	returned := false
	defer func() {
		if returned {
			return
		}
		p := recover()
		a.receipt, a.err = a.finish(ctx, w.undo(ctx, tx, a, broken(p)))
		if p != nil {
			panic(p)
		}
	}()
	a.begun = true
	err := w.h(bounded, tx.Tx(), a.ev)
	returned = true
	if err != nil {
		return w.undo(ctx, tx, a, err)
	}
	return nil
}

// undo rolls back after the handler has failed. Its error is a *handlerError, or an *unknownError if the handler has
// ended the transaction.
func (within[T]) undo(ctx context.Context, tx store.Tx[T], a *attempt, failed error) error {
	write, done := a.in.storeContext(ctx)
	defer done()
	if err := tx.Rollback(write); endedUnknown(err) {
		return &unknownError{fmt.Errorf("%w; then the handler failed: %w", err, failed)}
	}
	return &handlerError{failed}
}

// endedUnknown reports whether an error of the transaction's end means that the handler's writes may be committed.
func endedUnknown(err error) bool {
	return errors.Is(err, store.ErrTxEnded) && errors.Is(err, store.ErrUnknown)
}
