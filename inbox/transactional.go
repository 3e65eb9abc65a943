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
// itself, and should do nothing outside of tx: what it does there happens again when the transaction fails.
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
		return w.overtaken(a, g)
	}
	if err := w.run(ctx, tx, a); err != nil {
		return &handlerError{err}
	}
	visit, done := a.visit(ctx)
	defer done()
	err = tx.Commit(visit, a.outcome(false))
	switch {
	case err == nil:
		return nil
	case errors.Is(err, store.ErrUnknown):
		return a.confirm(visit, g.Lease, err)
	case errors.Is(err, store.ErrUnavailable), errors.Is(err, store.ErrLost):
		return err
	}
	// The engine refuses what the handler wrote, as a deferred constraint does.
	return &handlerError{fmt.Errorf("commit: %w", err)}
}

// overtaken is the answer when another delivery has come in between the count and the transaction.
func (w within[T]) overtaken(a *attempt, g store.Grant) error {
	r, err := w.t.in.answer(a.ev, g)
	if err == nil {
		return &settledError{r}
	}
	return err
}

// A settledError carries the receipt of whoever came first.
type settledError struct{ receipt Receipt }

func (*settledError) Error() string { return "inbox: settled by another delivery" }

// run calls the handler in the transaction, and rolls it back unless the handler succeeds.
func (w within[T]) run(ctx context.Context, tx store.Tx[T], a *attempt) error {
	bounded, done := context.WithTimeout(ctx, w.t.in.timeout)
	defer done()
	returned := false
	var err error
	defer func() {
		if returned && err == nil {
			return
		}
		visit, over := a.visit(ctx)
		defer over()
		_ = tx.Rollback(visit)
		if !returned {
			a.note.err = "the handler panicked"
			a.pause(ctx)
		}
	}()
	err = w.h(bounded, tx.Tx(), a.ev)
	returned = true
	return err
}
