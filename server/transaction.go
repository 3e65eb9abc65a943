package server

import (
	"context"
	"errors"
	"fmt"
	"reflect"

	"github.com/redo-go/redo/store"
)

// Transactional opens a transaction of the store's engine for each request with a key, and commits what the handler
// writes through it, which [Tx] gives to it, together with the record of its response. There is no moment at which a
// dead process leaves the one without the other. T is the engine's transaction, such as pgx.Tx or *bbolt.Tx.
//
//	mux.Handle("POST /refunds", server.Middleware(st, server.Required(), server.Transactional[pgx.Tx]())(createRefund))
//
//	func createRefund(w http.ResponseWriter, r *http.Request) {
//		tx, ok := server.Tx[pgx.Tx](r.Context())
//		…
//	}
//
// The handler's outcome says what becomes of its writes and of the record. The response is sent after that:
//
//	outcome                                      its writes   the record          the next request
//	2xx, 3xx                                     committed    the response        gets it replayed
//	4xx, but 408, 425 and 429; Fail              undone       the response        gets it replayed
//	5xx, 408, 425, 429; Release; its time over   undone       none                runs the handler
//	5xx with StoreServerErrors                   undone       the response        gets it replayed
//	any status after Store                       committed    the response        gets it replayed
//	a panic, Goexit                              undone       none                runs the handler
//	a panic, Goexit after Store                  undone       that it is unknown  gets 409, outcome_unknown
//	the commit fails                             undone       none                runs the handler
//
// A terminal 4xx undoes the writes because it tells the client that nothing was applied. Of a request that took a key
// over, "none" leaves the record as it was. When the commit fails the answer is 503 with Retry-After, whatever the
// handler's was. The same goes for a commit whose answer was lost and that the record does not show: the retry tells.
//
// A handler that commits or rolls back by itself breaks the table, see store.ErrTxEnded. Work that it committed is never
// called undone: a success is recorded and sent, and with any other outcome the answer is 503 and the next request gets 409,
// outcome_unknown. Work that it rolled back is no success: the answer is 503. Either way the log's line is an error.
//
// What the handler does outside of the transaction has no part in it, and may happen again: when the commit fails, Store
// does not keep the key. The transaction is open as long as the handler runs, so calls to others belong elsewhere. The
// response is held in memory whole until the commit: MaxResponse bounds what is stored of it, and not what is held.
// Nothing between the middleware and the handler may return before the handler does, as http.TimeoutHandler does: the transaction
// would end under its hands. Bound the handler by its context.
//
// While the handler runs there is no lease to renew, so LeaseTTL has no meaning, nor a record that others could see. A
// request with the same key is in flight at once; one that may Wait asks for the key again after 25 ms, and then after
// pauses that double up to 400 ms, or sooner where the store can tell that the transaction is over. A request without a key on a route that does not require one runs the handler without a
// transaction.
//
// New returns an error when the store is no store.TxStore[T], and when FailOpen is given too.
func Transactional[T any]() Option {
	return optionFunc(func(c *config) {
		c.transactional = func(st store.Store) (opener, error) {
			ts, ok := st.(store.TxStore[T])
			if !ok {
				return nil, fmt.Errorf("server: option Transactional: the store, a %T, has no transactions of type %v", st, reflect.TypeFor[T]())
			}
			return func(ctx context.Context, c store.Claim) (transaction, store.Grant, error) {
				return ts.Begin(ctx, c)
			}, nil
		}
	})
}

// Tx returns the transaction that the handler's writes belong in, on a route with Transactional. It may be used by one
// goroutine at a time, and neither be committed nor rolled back, not even by a deferred call: its outcome follows from the
// handler's. A function given to Recover gets it too.
//
// It returns false for a request without a key, for a T that is not the route's, outside of the middleware, and once the
// handler has returned. Whoever keeps the transaction for longer than the handler runs uses one that is over.
func Tx[T any](ctx context.Context) (T, bool) {
	if c := callOf(ctx); c != nil {
		if in, ok := c.own.(*inTransaction); ok {
			c.mu.Lock()
			defer c.mu.Unlock()
			if tx, ok := in.tx.(store.Tx[T]); ok && in.lent {
				return tx.Tx(), true
			}
		}
	}
	var none T
	return none, false
}

// An opener is the Begin of a store whose T is not told.
type opener func(ctx context.Context, c store.Claim) (transaction, store.Grant, error)

// A transaction is a store.Tx whose T is not told.
type transaction interface {
	Commit(ctx context.Context, o store.Outcome) error
	Discard(ctx context.Context, o store.Outcome) error
	Rollback(ctx context.Context) error
}

// Errors of the requests that have a transaction.
var (
	// errRolledBack: the transaction could not be committed. Nothing was done, and the key is as it was.
	errRolledBack = errors.New("server: the transaction was rolled back")

	errNoCheckpoint = fmt.Errorf("server: a checkpoint in a transaction would vanish with it: %w", errors.ErrUnsupported)
)

// An inTransaction is the ownership of a key by an open transaction, which excludes others as long as it is open.
type inTransaction struct {
	call *execution
	tx   transaction
	lent bool // the handler may have it; under call.mu
	over bool
}

// context implements ownership. Nothing has to be renewed.
func (t *inTransaction) context() context.Context {
	t.lend(true)
	return t.call.idle()
}

// settle implements ownership. The write is made once: whatever its error, the transaction is over.
func (t *inTransaction) settle(o store.Outcome, undo bool) error {
	c := t.call
	t.end()
	defer c.rest()
	write := c.commit
	if undo {
		write = c.discard
	}
	err := write(c.visit(), t.tx, o)
	switch {
	case errors.Is(err, store.ErrTxEnded) && errors.Is(err, store.ErrUnknown):
		c.err = err // the handler's fault, for the log
		if undo {
			return err
		}
		return t.look(err)
	case errors.Is(err, store.ErrUnknown):
		err = t.look(err)
	case err != nil:
		err = fmt.Errorf("%w: %w", errRolledBack, err)
		c.event.To = c.event.From
	}
	c.err = err
	return err
}

// look reads from the record whether the transaction has been committed. That it does not show is no proof that it
// never will: the engine may be at it still. It is a visit of its own, since the commit may have used the time of its.
func (t *inTransaction) look(lost error) error {
	c := t.call
	ctx, pause := c.visit(), settlePause
	for try := 1; ; try++ {
		rec, err := c.find(ctx, c.lease.ID)
		if err == nil && rec.State != store.StatePending && rec.Fence == c.lease.Fence {
			return nil
		}
		if try == settleTries || !sleep(ctx, pause) {
			return errors.Join(lost, err)
		}
		pause *= 2
	}
}

// giveBack implements ownership. The transaction is over even when the rollback fails, so there is nobody to tell but the
// log, unless the handler has committed what was to be rolled back.
func (t *inTransaction) giveBack() error {
	c := t.call
	t.end()
	defer c.rest()
	err := c.rollback(c.visit(), t.tx)
	c.err = errors.Join(c.err, err)
	if errors.Is(err, store.ErrTxEnded) && errors.Is(err, store.ErrUnknown) {
		return err
	}
	c.event.To = c.event.From
	return nil
}

// unfinished implements ownership. Its writes are undone, so it must not be told as applied; what else it has done nobody
// knows.
func (*inTransaction) unfinished(int) []byte { return store.UnknownOutcome().Result }

// handBack implements ownership: a rollback leaves a record that was taken over as it was.
func (t *inTransaction) handBack() { _ = t.giveBack() }

// checkpoint implements ownership.
func (t *inTransaction) checkpoint(context.Context, []byte) error { return errNoCheckpoint }

// end takes the transaction back from the handler, to end it.
func (t *inTransaction) end() {
	t.over = true
	t.lend(false)
}

func (t *inTransaction) lend(lent bool) {
	t.call.mu.Lock()
	defer t.call.mu.Unlock()
	t.lent = lent
}

// drop ends a transaction that nobody has ended, because an observer panicked. Left open it could block others for good.
func (t *inTransaction) drop() {
	if !t.over {
		_ = t.giveBack()
	}
}
