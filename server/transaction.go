package server

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"time"

	"github.com/redo-go/redo/internal/settle"
	"github.com/redo-go/redo/store"
)

// Transactional opens a transaction of the store's engine for each request with a key. The handler writes through it:
// see [Tx]. Its writes and the record of its response are committed together. A process that dies never leaves one
// without the other. T is the engine's transaction, such as pgx.Tx or *boltstore.Tx.
//
//	once := server.Middleware(st, server.Principal(customer), server.Transactional[pgx.Tx]())
//	mux.Handle("POST /refunds", once(http.HandlerFunc(createRefund)))
//
//	func createRefund(w http.ResponseWriter, r *http.Request) {
//		tx, ok := server.Tx[pgx.Tx](r.Context())
//		…
//	}
//
// The handler's outcome decides whether its writes and the record are committed. The response is sent after that:
//
//	outcome                                         its writes   the record          the next request
//	2xx, 3xx but 307 and 308                        committed    the response        gets it replayed
//	4xx that Keep stores; Fail                      undone       the response        gets it replayed
//	307, 308, other 4xx, 5xx; Release; Unknown;
//	a timeout                                       undone       none                runs the handler
//	5xx that Keep stores                            undone       the response        gets it replayed
//	any status after Applied                        committed    the response        gets it replayed
//	a panic, Goexit                                 undone       none                runs the handler
//	a panic, Goexit after Applied                   undone       that it is unknown  gets 409, outcome_unknown
//	no response, without SilentOK                   undone       that it is unknown  gets 409, outcome_unknown
//	the commit fails                                undone       none                runs the handler
//
// A terminal 4xx undoes the writes because it states to the client that nothing was applied. If the request took a
// key over, "none" leaves the record as it was. If the commit fails, the response is 503 with Retry-After, after
// any response of the handler. It is 503 too if the response to the commit was lost and the record does not show
// the commit. The retry then gets the outcome.
//
// A handler must not commit or roll back. The transaction refuses both with store.ErrTxEnded, and a refused Rollback
// makes the commit fail: nothing is done. If a handler ends the transaction by other means, record and effect are not
// one transaction. The log gets an error, the response is 503, and the next request gets 409, outcome_unknown.
//
// Effects outside of the transaction are not part of it. They may happen again, because Applied does not keep the key
// if the commit fails. The transaction is open as long as the handler runs, so calls to other services belong
// elsewhere. The whole response is held in memory until the commit. MaxResponse limits its stored part. No layer
// between the middleware and the handler may return before the handler, because the transaction then ends.
// http.TimeoutHandler is such a layer: use HandlerTimeout.
//
// While the handler runs there is no lease, so LeaseTTL has no meaning. No record is visible to others. A request
// with the same key is immediately in flight. A request that may Wait claims the key again after 25 ms, and then
// after pauses that double up to 400 ms. It claims sooner if the store can report the end of the transaction. A
// request without a key, on a route that does not require one, runs the handler without a transaction.
//
// New returns an error if the store is no store.TxStore[T], and if FailOpen is given too. A sealed store is one if it
// was made with store.SealedTx, and not with store.Sealed. A store with a method TransactionsOf() store.Store uses
// those of the returned store. Package servertest has one.
func Transactional[T any]() Option {
	return optionFunc(func(c *config) {
		c.transactional = func(st store.Store) (opener, error) {
			ts, ok := st.(store.TxStore[T])
			if w, wraps := st.(interface{ TransactionsOf() store.Store }); !ok && wraps {
				ts, ok = w.TransactionsOf().(store.TxStore[T])
			}
			if !ok {
				return nil, fmt.Errorf("server: option Transactional: the store, a %T, has no transactions of type "+
					"%v; a sealed store needs store.SealedTx",
					st, reflect.TypeFor[T]())
			}
			return func(ctx context.Context, c store.Claim) (transaction, store.Grant, error) {
				return ts.Begin(ctx, c)
			}, nil
		}
	})
}

// Tx returns the transaction for the handler's writes, on a route with Transactional. One goroutine may use it at a
// time. It must not be committed or rolled back, not even by a deferred call: the handler's outcome decides. A
// function given to Recover can call it too.
//
// It returns false for a request without a key, for a T that is not the route's, outside of the middleware, and after
// the handler has returned. The transaction must not be used after that.
func Tx[T any](ctx context.Context) (T, bool) {
	if c := callOf(ctx); c != nil {
		if in, ok := c.own.(*txOwnership); ok {
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

// An opener is the Begin of a store, without its type parameter.
type opener func(ctx context.Context, c store.Claim) (transaction, store.Grant, error)

// A transaction is a store.Tx, without its type parameter.
type transaction interface {
	Commit(ctx context.Context, o store.Outcome) error
	Discard(ctx context.Context, o store.Outcome) error
	Rollback(ctx context.Context) error
}

// Errors of the requests that have a transaction.
var (
	// errRolledBack: the transaction could not be committed. Nothing was done, and the key is as it was.
	errRolledBack = errors.New("server: the transaction was rolled back")

	errNoCheckpoint = fmt.Errorf("server: a checkpoint in a transaction would be rolled back with it: %w",
		errors.ErrUnsupported)
)

// A txOwnership owns a key by an open transaction, which excludes others as long as it is open.
type txOwnership struct {
	call  *execution
	tx    transaction
	lent  bool // Tx may return it; guarded by call.mu
	ended bool
}

// context implements ownership. No lease needs a renewal.
func (t *txOwnership) context(time.Time) context.Context {
	t.lend(true)
	return t.call.freeContext()
}

// settle implements ownership. The write is made once: the transaction has ended after it, with any error.
func (t *txOwnership) settle(o store.Outcome, undo bool) error {
	c := t.call
	t.end()
	defer c.endCall()
	method, write := "Commit", t.tx.Commit
	if undo {
		method, write = "Discard", t.tx.Discard
	}
	ctx, began := c.callContext(time.Now()), c.store.clock()
	err := c.store.saw(ctx, method, began, write(ctx, o))
	switch {
	case err == nil:
	case ended(err):
		c.faulty = true
	case errors.Is(err, store.ErrUnknown):
		err = t.verify(err)
	default:
		c.faulty = c.faulty || errors.Is(err, store.ErrTxEnded) // a rollback of the handler's that was refused
		err = fmt.Errorf("%w: %w", errRolledBack, err)
		c.event.To = c.event.From
	}
	c.err = errors.Join(c.err, err)
	return err
}

// commitReads is the number of times that the record is read after the response of a commit was lost.
const commitReads = 4

// verify reads from the record whether the transaction has been committed. A record that does not show it proves
// nothing: the engine may still be committing.
func (t *txOwnership) verify(lost error) error {
	c := t.call
	ctx := c.callContext(time.Now()) // the commit may have used all of its time
	pause := settle.FirstPause
	for read := 1; ; read++ {
		rec, err := c.store.Find(ctx, c.lease.ID)
		if err == nil && rec.State != store.StatePending && rec.Fence == c.lease.Fence {
			return nil
		}
		if read == commitReads || !settle.Sleep(ctx, pause) {
			return errors.Join(lost, err)
		}
		pause *= 2
	}
}

// release implements ownership. The transaction has ended even if the rollback fails.
func (t *txOwnership) release() error {
	c := t.call
	t.end()
	defer c.endCall()
	ctx, began := c.callContext(time.Now()), c.store.clock()
	err := c.store.saw(ctx, "Rollback", began, t.tx.Rollback(ctx))
	c.err = errors.Join(c.err, err)
	if ended(err) {
		c.faulty = true
		return err
	}
	c.event.To = c.event.From
	return nil
}

// ended reports whether the handler has ended the transaction, so that its outcome is unknown.
func ended(err error) bool {
	return errors.Is(err, store.ErrTxEnded) && errors.Is(err, store.ErrUnknown)
}

// handBack implements ownership: a rollback leaves a record that was taken over as it was.
func (t *txOwnership) handBack() error { return t.release() }

// unfinished implements ownership. The handler's writes are undone, so its effect must not be reported as applied.
func (*txOwnership) unfinished(int) []byte { return store.UnknownOutcome().Result }

// applied implements ownership: the commit makes the effect durable.
func (*txOwnership) applied() error { return nil }

// checkpoint implements ownership.
func (*txOwnership) checkpoint(context.Context, []byte) error { return errNoCheckpoint }

// end takes the transaction back from the handler.
func (t *txOwnership) end() {
	t.ended = true
	t.lend(false)
}

func (t *txOwnership) lend(lent bool) {
	t.call.mu.Lock()
	defer t.call.mu.Unlock()
	t.lent = lent
}

// drop ends a transaction that is open after an observer has panicked. It could block other requests for good.
func (t *txOwnership) drop() {
	if !t.ended {
		_ = t.release()
	}
}
