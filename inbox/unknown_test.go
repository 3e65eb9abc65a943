package inbox_test

import (
	"context"
	"errors"
	"net/http"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/inbox"
	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/taxonomy"
)

func TestHandlerThatEndsItsTransactionIsNotRunAgain(t *testing.T) {
	for _, c := range []struct {
		name    string
		next    inbox.Handler
		dies    bool
		failure string
		opts    []inbox.Option
	}{
		{name: "and succeeds", next: returns(nil)},
		{name: "and fails", next: returns(errHandler), failure: "the ledger is closed"},
		{name: "and rejects the event", next: returns(inbox.Reject(errHandler)), failure: "the ledger is closed"},
		{
			name: "in its last attempt", next: returns(errHandler), failure: "the ledger is closed",
			opts: []inbox.Option{inbox.MaxAttempts(1)},
		},
		{
			name: "and panics", next: func(context.Context, inbox.Event) error { panic("boom") },
			dies: true, failure: "the handler panicked",
		},
		{name: "and ends its goroutine", next: func(context.Context, inbox.Event) error {
			runtime.Goexit()
			return nil
		}, dies: true, failure: "the handler ended its goroutine"},
		{name: "and runs out of time", next: func(ctx context.Context, _ inbox.Event) error {
			<-ctx.Done()
			return ctx.Err()
		}, failure: "deadline exceeded"},
	} {
		t.Run(c.name, func(t *testing.T) {
			rigged(t, func(t *testing.T, r *rig) {
				var got inbox.Receipt
				err := errors.New("it did not return")
				gone := make(chan struct{})
				go func() {
					defer close(gone)
					defer func() { _ = recover() }()
					got, err = r.live.Receive(t.Context(), event, r.ends(c.next))
				}()
				<-gone
				if c.dies {
					require.EqualError(t, err, "it did not return")
				} else {
					require.NoError(t, err)
					require.Equal(t, inbox.DeadLettered, got.Status)
					require.True(t, got.Unknown)
					require.Equal(t, 1, got.Attempts)
				}
				letter := r.requireUnknown(t)
				require.Equal(t, 1, letter.Attempts)
				require.Contains(t, letter.Failure, "the handler's effect is unknown")
				require.Contains(t, letter.Failure, store.ErrTxEnded.Error())
				require.Contains(t, letter.Failure, c.failure)
				for _, want := range []string{"level=ERROR", store.ErrTxEnded.Error(), "idempotency_key=ev_001"} {
					require.Contains(t, r.log.String(), want)
				}

				plain := newInbox(t, r.engine)
				got, err = plain.Receive(t.Context(), event, unused)
				require.NoError(t, err)
				require.Equal(t, inbox.Replayed, got.Status)
				require.True(t, got.Unknown)
				_, err = plain.Redrive(t.Context(), event.Source, event.ID, unused)
				refused(t, err, taxonomy.OutcomeUnknown)
			}, c.opts...)
		})
	}
}

// Each write after the handler's commit may be the last one of the process.
func TestNoCrashHidesAnUnknownOutcome(t *testing.T) {
	for writes := 0; ; writes++ {
		enough := false
		rigged(t, func(t *testing.T, r *rig) {
			r.left = writes
			got, err := r.doomed.Receive(t.Context(), event, r.ends(returns(errHandler)))
			if enough = err == nil; enough {
				require.Equal(t, inbox.DeadLettered, got.Status)
				require.Positive(t, r.writes)
			} else {
				refused(t, err, taxonomy.Unavailable)
				require.Empty(t, letters(t, r.live, ""))
			}
			require.Equal(t, 1, r.requireUnknown(t).Attempts)
		})
		if enough {
			return
		}
	}
}

// A redrive that ends unknown must not leave an event that another redrive handles.
func TestNoCrashInARedriveThatEndsUnknownRepeatsIt(t *testing.T) {
	for writes := 0; ; writes++ {
		enough := false
		rigged(t, func(t *testing.T, r *rig) {
			_, err := r.live.Receive(t.Context(), event, credit(inbox.Reject(errHandler)))
			require.NoError(t, err)
			r.left = writes
			_, err = r.doomed.Redrive(t.Context(), event.Source, event.ID, r.ends(returns(errHandler)))
			if enough = err == nil; !enough {
				refused(t, err, taxonomy.Unavailable)
				_, err := r.live.Redrive(t.Context(), event.Source, event.ID, credit(nil))
				refused(t, err, taxonomy.OutcomeUnknown)
			}
			require.Equal(t, 2, r.requireUnknown(t).Attempts)
		})
		if enough {
			return
		}
	}
}

// The event is never handled again, however old its letter is.
func TestAnUnknownOutcomeIsRememberedAsLongAsItsLetter(t *testing.T) {
	for _, opts := range [][]inbox.Option{nil, {inbox.LetterRetention(60 * 24 * time.Hour)}} {
		rigged(t, func(t *testing.T, r *rig) {
			r.makeUnknown(t)
			before := letters(t, r.live, "")
			time.Sleep(30 * 24 * time.Hour)
			r.requireUnknown(t)
			require.Equal(t, before, letters(t, r.live, ""))
		}, opts...)
	}
}

// A letter that was written later than the event was settled outlives the event's record.
func TestAnUnknownLetterIsNotRedrivenAfterItsEventHasExpired(t *testing.T) {
	rigged(t, func(t *testing.T, r *rig) {
		r.left = 0
		_, err := r.doomed.Receive(t.Context(), event, r.ends(returns(errHandler)))
		refused(t, err, taxonomy.Unavailable)
		time.Sleep(inbox.DefaultRetention - second)
		r.requireUnknown(t)
		time.Sleep(inbox.DefaultRetention - second)
		_, err = r.Find(t.Context(), eventRecord)
		require.ErrorIs(t, err, store.ErrNotFound)
		_, err = r.live.Redrive(t.Context(), event.Source, event.ID, credit(nil))
		refused(t, err, taxonomy.OutcomeUnknown)
		require.Equal(t, credited, r.rows)
	}, inbox.LetterRetention(inbox.DefaultRetention))
}

func TestADroppedUnknownLetterLeavesItsEventSettled(t *testing.T) {
	rigged(t, func(t *testing.T, r *rig) {
		r.makeUnknown(t)
		require.NoError(t, r.live.Drop(t.Context(), event.Source, event.ID))
		require.Empty(t, letters(t, r.live, ""))
		require.ErrorIs(t, r.live.Drop(t.Context(), event.Source, event.ID), inbox.ErrNoLetter)
		_, err := r.live.Redrive(t.Context(), event.Source, event.ID, credit(nil))
		refused(t, err, taxonomy.OutcomeUnknown)
		r.requireUnknown(t) // a late delivery makes the letter again, and is not handled
	})
}

// The operator has found out that the effect was not made.
func TestAnUnknownEventThatAnOperatorForgetsIsHandledAgain(t *testing.T) {
	rigged(t, func(t *testing.T, r *rig) {
		r.makeUnknown(t)
		require.NoError(t, r.live.Drop(t.Context(), event.Source, event.ID))
		rec, err := r.Find(t.Context(), eventRecord)
		require.NoError(t, err)
		require.NoError(t, r.Forget(t.Context(), rec.Lease()))
		got, err := r.live.Receive(t.Context(), event, credit(nil))
		require.NoError(t, err)
		require.Equal(t, inbox.Processed, got.Status)
	})
}

// The letter of an earlier event with the same id is not this event's.
func TestAnUnknownLetterOfAnotherPayloadIsKept(t *testing.T) {
	rigged(t, func(t *testing.T, r *rig) {
		r.makeUnknown(t)
		rec, err := r.Find(t.Context(), eventRecord)
		require.NoError(t, err)
		require.NoError(t, r.Forget(t.Context(), rec.Lease()))
		other := event
		other.Payload = []byte("other")
		for range 2 {
			_, err := r.live.Receive(t.Context(), other, r.ends(returns(errHandler)))
			refused(t, err, taxonomy.PayloadMismatch)
		}
		require.NoError(t, r.live.Drop(t.Context(), event.Source, event.ID))
		got, err := r.live.Receive(t.Context(), other, credit(nil))
		require.NoError(t, err)
		require.True(t, got.Unknown)
		require.Equal(t, other.Payload, letters(t, r.live, "")[0].Payload)
		require.Equal(t, map[string]int{"credit ev_001": 2}, r.rows)
	})
}

// The delivery that writes the missing letter must have the payload that was handled.
func TestAnotherPayloadIsNotKeptAsTheUnknownOne(t *testing.T) {
	rigged(t, func(t *testing.T, r *rig) {
		r.left = 0
		_, err := r.doomed.Receive(t.Context(), event, r.ends(returns(errHandler)))
		refused(t, err, taxonomy.Unavailable)
		other := event
		other.Payload = []byte("other")
		got, err := r.live.Receive(t.Context(), other, credit(nil))
		require.NoError(t, err)
		require.True(t, got.Unknown)
		require.True(t, got.PayloadMismatch)
		require.Empty(t, letters(t, r.live, ""))
		r.requireUnknown(t)
	})
}

// The producer stops delivering, and does not learn the error.
func TestADeliveryOfAnUnknownOutcomeIsAcknowledged(t *testing.T) {
	rigged(t, func(t *testing.T, r *rig) {
		h := r.live.Handler(identify, r.ends(returns(errHandler)))
		require.Equal(t, response{http.StatusAccepted, "stored", "", "", ""}, deliver(t, h, event.ID, "p"))
		require.Equal(t, response{http.StatusOK, "replayed", "true", "", ""}, deliver(t, h, event.ID, "p"))
		require.Equal(t, response{http.StatusOK, "replayed", "true", "", ""}, deliver(t, h, event.ID, "other"))
		require.Equal(t, []byte("p"), letters(t, r.live, "")[0].Payload)
	})
}
