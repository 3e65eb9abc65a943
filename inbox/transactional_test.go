package inbox_test

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/inbox"
	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/memstore"
	"github.com/redo-go/redo/taxonomy"
)

// transactional runs f in virtual time over a new engine.
func transactional(t *testing.T, f func(t *testing.T, e *engine, in *inbox.Transactional[rows]), opts ...inbox.Option) {
	t.Helper()
	bubble(t, func(t *testing.T, st *memstore.Store) {
		e := newEngine(st)
		in, err := inbox.NewTransactional(e, opts...)
		require.NoError(t, err)
		f(t, e, in)
	})
}

// credit writes a row, and returns err.
func credit(err error) inbox.TxHandler[rows] {
	return func(_ context.Context, tx rows, ev inbox.Event) error {
		tx["credit "+ev.ID]++
		return err
	}
}

var credited = map[string]int{"credit ev_001": 1}

func TestTheMarkIsInTheHandlersTransaction(t *testing.T) {
	transactional(t, func(t *testing.T, e *engine, in *inbox.Transactional[rows]) {
		r, err := in.Receive(t.Context(), event, credit(nil))
		require.NoError(t, err)
		require.Equal(t, inbox.Processed, r.Status)
		require.Equal(t, 1, r.Attempts)
		require.Equal(t, credited, e.rows)
		r, err = in.Receive(t.Context(), event, credit(nil))
		require.NoError(t, err)
		require.Equal(t, inbox.Replayed, r.Status)
		require.Equal(t, 1, r.Attempts)
		require.Equal(t, credited, e.rows)
	})
}

func TestARollbackDoesNotTakeTheCountBack(t *testing.T) {
	transactional(t, func(t *testing.T, e *engine, in *inbox.Transactional[rows]) {
		for n := 1; n < 3; n++ {
			_, err := in.Receive(t.Context(), event, credit(errHandler))
			f := refused(t, err, inbox.HandlerFailed)
			require.Equal(t, n, f.Attempts)
			_, err = in.Receive(t.Context(), event, credit(nil))
			f = refused(t, err, taxonomy.InFlight)
			require.Equal(t, time.Duration(n)*second, f.RetryAfter, "it rests")
			require.Equal(t, n, f.Attempts)
			time.Sleep(f.RetryAfter)
		}
		r, err := in.Receive(t.Context(), event, credit(errHandler))
		require.NoError(t, err)
		require.Equal(t, inbox.DeadLettered, r.Status)
		require.Equal(t, 3, r.Attempts)
		require.Empty(t, e.rows)
		require.Equal(t, "the ledger is closed", letters(t, in, "payments")[0].Failure)

		r, err = in.Redrive(t.Context(), event.Source, event.ID, credit(nil))
		require.NoError(t, err)
		require.Equal(t, inbox.Processed, r.Status)
		require.Equal(t, 4, r.Attempts)
		require.Equal(t, credited, e.rows)
		require.Empty(t, letters(t, in, ""))
		require.ErrorIs(t, in.Drop(t.Context(), event.Source, event.ID), inbox.ErrNoLetter)
	}, inbox.MaxAttempts(3))
}

// The process dies at each of its steps: the next delivery finishes the remaining work, and the row is there once.
func TestNoCrashLosesATransactionalEventOrAppliesItTwice(t *testing.T) {
	for name, die := range map[string]func(e *engine, h *inbox.TxHandler[rows]){
		"after the count": func(e *engine, _ *inbox.TxHandler[rows]) { e.before = runtime.Goexit },
		"in the handler": func(e *engine, h *inbox.TxHandler[rows]) {
			*h = func(ctx context.Context, tx rows, ev inbox.Event) error {
				_ = credit(nil)(ctx, tx, ev)
				e.crash()
				runtime.Goexit()
				return nil
			}
		},
		"before the commit": func(e *engine, h *inbox.TxHandler[rows]) {
			*h = func(ctx context.Context, tx rows, ev inbox.Event) error {
				e.crash()
				return credit(nil)(ctx, tx, ev)
			}
		},
		"after the commit": func(e *engine, _ *inbox.TxHandler[rows]) {
			e.committed = func(err error) error {
				defer runtime.Goexit()
				return err
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			transactional(t, func(t *testing.T, e *engine, in *inbox.Transactional[rows]) {
				h := credit(nil)
				die(e, &h)
				gone := make(chan struct{})
				go func() {
					defer close(gone)
					_, _ = in.Receive(t.Context(), event, h)
				}()
				<-gone
				e.before, e.committed = nil, nil
				e.crash()
				time.Sleep(second) // the dead attempt's last note counts as its rest
				_, err := in.Receive(t.Context(), event, credit(nil))
				require.NoError(t, err)
				require.Equal(t, credited, e.rows)
				r, err := in.Receive(t.Context(), event, credit(nil))
				require.NoError(t, err)
				require.Equal(t, inbox.Replayed, r.Status)
				require.Equal(t, credited, e.rows)
			})
		})
	}
}

func TestACommitWhoseResponseIsLostIsReadBack(t *testing.T) {
	down := errors.New("connection reset")
	lost := func(error) error { return errors.Join(store.ErrUnknown, down) }
	t.Run("made", func(t *testing.T) {
		transactional(t, func(t *testing.T, e *engine, in *inbox.Transactional[rows]) {
			e.committed = lost
			r, err := in.Receive(t.Context(), event, credit(nil))
			require.NoError(t, err)
			require.Equal(t, inbox.Processed, r.Status)
			require.Equal(t, credited, e.rows)
		})
	})
	t.Run("not made", func(t *testing.T) {
		transactional(t, func(t *testing.T, e *engine, in *inbox.Transactional[rows]) {
			e.committed, e.refuse = lost, down
			_, err := in.Receive(t.Context(), event, credit(nil))
			refused(t, err, taxonomy.Unavailable)
			require.ErrorIs(t, err, store.ErrUnknown)
			e.committed, e.refuse = nil, nil
			r, err := in.Receive(t.Context(), event, credit(nil))
			require.NoError(t, err)
			require.Equal(t, 2, r.Attempts)
			require.Equal(t, credited, e.rows)
		})
	})
}

func TestACommitWhoseRecordCannotBeReadIsNotAcknowledged(t *testing.T) {
	bubble(t, func(t *testing.T, st *memstore.Store) {
		e := &unreadable{engine: newEngine(st)}
		in, err := inbox.NewTransactional(e)
		require.NoError(t, err)
		e.committed = func(error) error {
			e.down = true
			return errUnknown
		}
		_, err = in.Receive(t.Context(), event, credit(nil))
		refused(t, err, taxonomy.Unavailable)
		require.ErrorIs(t, err, errUnknown)
		require.ErrorIs(t, err, errDown)
		e.down = false
		r, err := in.Receive(t.Context(), event, credit(nil))
		require.NoError(t, err)
		require.Equal(t, inbox.Replayed, r.Status)
		require.Equal(t, credited, e.rows)
	})
}

// An unreadable engine finds no record while it is down.
type unreadable struct {
	*engine
	down bool
}

func (u *unreadable) Find(ctx context.Context, id store.ID) (store.Record, error) {
	if u.down {
		return store.Record{}, errDown
	}
	return u.engine.Find(ctx, id)
}

func TestACommitThatTheEngineRefusesIsAFailedAttempt(t *testing.T) {
	transactional(t, func(t *testing.T, e *engine, in *inbox.Transactional[rows]) {
		e.refuse = errors.New("a deferred constraint is broken")
		_, err := in.Receive(t.Context(), event, credit(nil))
		refused(t, err, inbox.HandlerFailed)
		time.Sleep(second)
		r, err := in.Receive(t.Context(), event, credit(nil))
		require.NoError(t, err)
		require.Equal(t, inbox.DeadLettered, r.Status)
		require.Equal(t, "commit: a deferred constraint is broken", r.Failure)
		require.Empty(t, e.rows)
	}, inbox.MaxAttempts(2))
}

// A refused rollback is the handler's failure also if the store fails too: it is retried, and counted.
func TestARollbackByTheHandlerIsAFailedAttempt(t *testing.T) {
	transactional(t, func(t *testing.T, e *engine, in *inbox.Transactional[rows]) {
		e.refuse = errors.Join(store.ErrTxEnded, store.ErrUnavailable)
		_, err := in.Receive(t.Context(), event, credit(nil))
		require.Equal(t, 1, refused(t, err, inbox.HandlerFailed).Attempts)
		_, err = in.Receive(t.Context(), event, credit(nil))
		require.Equal(t, second, refused(t, err, taxonomy.InFlight).RetryAfter, "it rests")
		require.Empty(t, e.rows)
	})
}

func TestAnOpenTransactionExcludesOtherDeliveriesAndTheyDoNotCount(t *testing.T) {
	transactional(t, func(t *testing.T, e *engine, in *inbox.Transactional[rows]) {
		r, err := in.Receive(t.Context(), event, func(ctx context.Context, tx rows, ev inbox.Event) error {
			for range 3 {
				_, err := in.Receive(ctx, event, credit(nil))
				refused(t, err, taxonomy.InFlight)
			}
			return credit(nil)(ctx, tx, ev)
		})
		require.NoError(t, err)
		require.Equal(t, 1, r.Attempts)
		require.Equal(t, credited, e.rows)
	})
}

func TestADeliveryThatIsOvertakenReturnsTheOthersOutcome(t *testing.T) {
	transactional(t, func(t *testing.T, e *engine, in *inbox.Transactional[rows]) {
		e.before = func() {
			e.before = nil
			r, err := in.Receive(t.Context(), event, credit(nil))
			require.NoError(t, err)
			require.Equal(t, inbox.Processed, r.Status)
		}
		r, err := in.Receive(t.Context(), event, credit(nil))
		require.NoError(t, err)
		require.Equal(t, inbox.Replayed, r.Status)
		require.Equal(t, credited, e.rows)
	})
}

func TestADeliveryThatIsOvertakenByOneInFlightIsRefused(t *testing.T) {
	transactional(t, func(t *testing.T, e *engine, in *inbox.Transactional[rows]) {
		ended := make(chan error, 1)
		e.before = func() {
			e.before = nil
			go func() {
				_, err := in.Receive(t.Context(), event, func(ctx context.Context, tx rows, ev inbox.Event) error {
					time.Sleep(second)
					return credit(nil)(ctx, tx, ev)
				})
				ended <- err
			}()
			synctest.Wait()
		}
		r, err := in.Receive(t.Context(), event, credit(nil))
		refused(t, err, taxonomy.InFlight)
		require.Zero(t, r)
		require.NoError(t, <-ended)
		require.Equal(t, credited, e.rows)
	})
}

// The count comes before the transaction. A delivery in between must not treat the last attempt as dead.
func TestADeliveryBeforeTheLastAttemptBeginsDoesNotGiveItUp(t *testing.T) {
	transactional(t, func(t *testing.T, e *engine, in *inbox.Transactional[rows]) {
		e.before = func() {
			e.before = nil
			time.Sleep(second)
			_, err := in.Receive(t.Context(), event, credit(nil))
			f := refused(t, err, taxonomy.InFlight)
			require.Equal(t, 29*second, f.RetryAfter)
			require.Equal(t, 1, f.Attempts)
		}
		r, err := in.Receive(t.Context(), event, credit(nil))
		require.NoError(t, err)
		require.Equal(t, inbox.Processed, r.Status)
		require.Equal(t, credited, e.rows)
		require.Empty(t, letters(t, in, ""))
	}, inbox.MaxAttempts(1))
}

func TestALastAttemptThatNeverBeginsIsGivenUp(t *testing.T) {
	for attempts := 1; attempts <= 2; attempts++ {
		transactional(t, func(t *testing.T, e *engine, in *inbox.Transactional[rows]) {
			e.before = runtime.Goexit
			for range attempts {
				gone := make(chan struct{})
				go func() {
					defer close(gone)
					_, _ = in.Receive(t.Context(), event, credit(nil))
				}()
				<-gone
				time.Sleep(10 * second)
			}
			for _, left := range []time.Duration{20 * second, 1} {
				_, err := in.Receive(t.Context(), event, credit(nil))
				require.Equal(t, left, refused(t, err, taxonomy.InFlight).RetryAfter)
				time.Sleep(left - 1)
			}
			time.Sleep(time.Nanosecond)
			r, err := in.Receive(t.Context(), event, credit(nil))
			require.NoError(t, err)
			require.Equal(t, inbox.DeadLettered, r.Status)
			require.Equal(t, attempts, r.Attempts)
			require.Equal(t, "the attempt did not end", r.Failure)
		}, inbox.MaxAttempts(attempts))
	}
}

func TestAPanicRollsBackAndRests(t *testing.T) {
	transactional(t, func(t *testing.T, e *engine, in *inbox.Transactional[rows]) {
		require.PanicsWithValue(t, "boom", func() {
			_, _ = in.Receive(t.Context(), event, func(ctx context.Context, tx rows, ev inbox.Event) error {
				_ = credit(nil)(ctx, tx, ev)
				panic("boom")
			})
		})
		require.Empty(t, e.rows)
		_, err := in.Receive(t.Context(), event, credit(nil))
		require.Equal(t, second, refused(t, err, taxonomy.InFlight).RetryAfter)
		time.Sleep(second)
		r, err := in.Receive(t.Context(), event, credit(nil))
		require.NoError(t, err)
		require.Equal(t, 2, r.Attempts)
	})
}
