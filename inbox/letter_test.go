package inbox_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/inbox"
	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/memstore"
	"github.com/redo-go/redo/taxonomy"
)

var letterRecord = store.ID{Scope: "inbox-dead/payments", Key: "ev_001"}

// bury makes a dead letter of the event.
func bury(t *testing.T, in *inbox.Inbox) {
	t.Helper()
	r, err := in.Receive(t.Context(), event, func(context.Context, inbox.Event) error { return inbox.Reject(errHandler) })
	require.NoError(t, err)
	require.Equal(t, inbox.DeadLettered, r.Status)
}

func TestAfterItsLastAttemptAnEventIsKeptAndAcknowledged(t *testing.T) {
	bubble(t, func(t *testing.T, st *memstore.Store) {
		in := newInbox(t, st, inbox.MaxAttempts(3))
		start := time.Now().UTC().Round(0)
		h := &scripted{errs: []error{errors.New("first"), errors.New("second"), errHandler}}
		for n := 1; n < 3; n++ {
			_, err := in.Receive(t.Context(), event, h.handle)
			e := refused(t, err, inbox.HandlerFailed)
			require.Empty(t, letters(t, in, ""))
			time.Sleep(e.RetryAfter)
		}
		r, err := in.Receive(t.Context(), event, h.handle)
		require.NoError(t, err)
		require.Equal(t, inbox.DeadLettered, r.Status)
		require.Equal(t, 3, r.Attempts)
		require.True(t, r.Dead())
		require.Equal(t, []inbox.DeadLetter{{
			Source: event.Source, ID: event.ID, Payload: event.Payload, PayloadHash: r.PayloadHash,
			ReceivedAt: start, FailedAt: start.Add(3 * second), Attempts: 3, Failure: "the ledger is closed",
		}}, letters(t, in, "payments"))
		require.Equal(t, letters(t, in, ""), letters(t, in, "payments"))
		require.Empty(t, letters(t, in, "orders"))

		rec, err := st.Find(t.Context(), eventRecord)
		require.NoError(t, err)
		require.Equal(t, store.StateFailed, rec.State)
		r, err = in.Receive(t.Context(), event, h.handle)
		require.NoError(t, err)
		require.Equal(t, inbox.Replayed, r.Status)
		require.Equal(t, "the ledger is closed", r.Failure)
		require.Len(t, h.events, 3, "a dead letter's further deliveries are not handled")
	})
}

func TestARejectedEventHasNoSecondAttempt(t *testing.T) {
	require.NoError(t, inbox.Reject(nil))
	require.ErrorIs(t, inbox.Reject(errHandler), errHandler)
	bubble(t, func(t *testing.T, st *memstore.Store) {
		in := newInbox(t, st)
		bury(t, in)
		require.Equal(t, 1, letters(t, in, "")[0].Attempts)
	})
}

func TestARedrivenEventIsHandledUnderItsOwnID(t *testing.T) {
	bubble(t, func(t *testing.T, st *memstore.Store) {
		in := newInbox(t, st)
		start := time.Now()
		bury(t, in)
		time.Sleep(30 * 24 * time.Hour) // long after the event's record has expired
		h := &scripted{}
		r, err := in.Redrive(t.Context(), event.Source, event.ID, h.handle)
		require.NoError(t, err)
		require.Equal(t, inbox.Processed, r.Status)
		require.Equal(t, 2, r.Attempts)
		require.Len(t, h.events, 1)
		require.Equal(t, event.ID, h.events[0].ID)
		require.Equal(t, event.Payload, h.events[0].Payload)
		require.Equal(t, 2, h.events[0].Attempt)
		require.Equal(t, start.UnixNano(), h.events[0].ReceivedAt.UnixNano())
		require.Empty(t, letters(t, in, ""))

		r, err = in.Receive(t.Context(), event, h.handle)
		require.NoError(t, err)
		require.Equal(t, inbox.Replayed, r.Status, "a delivery that comes later")
		require.False(t, r.Dead())
		_, err = in.Redrive(t.Context(), event.Source, event.ID, h.handle)
		require.ErrorIs(t, err, inbox.ErrNoLetter)
		require.EqualError(t, err, `inbox: no such dead letter: "payments"/"ev_001"`)
		require.Len(t, h.events, 1)
	})
}

func TestARedriveThatFailsKeepsTheLetterWithItsNewError(t *testing.T) {
	bubble(t, func(t *testing.T, st *memstore.Store) {
		in := newInbox(t, st)
		bury(t, in)
		r, err := in.Redrive(t.Context(), event.Source, event.ID, func(context.Context, inbox.Event) error { return errors.New("still closed") })
		require.NoError(t, err)
		require.Equal(t, inbox.DeadLettered, r.Status)
		list := letters(t, in, "")
		require.Len(t, list, 1)
		require.Equal(t, "still closed", list[0].Failure)
		require.Equal(t, 2, list[0].Attempts)
		rec, err := st.Find(t.Context(), eventRecord)
		require.NoError(t, err)
		require.Equal(t, store.StateFailed, rec.State)
	})
}

func TestTwoRedrivesHandleAnEventOnce(t *testing.T) {
	bubble(t, func(t *testing.T, st *memstore.Store) {
		in := newInbox(t, st)
		bury(t, in)
		r, err := in.Redrive(t.Context(), event.Source, event.ID, func(ctx context.Context, _ inbox.Event) error {
			_, err := in.Redrive(ctx, event.Source, event.ID, nil)
			refused(t, err, taxonomy.InFlight)
			_, err = in.Receive(ctx, event, nil)
			refused(t, err, taxonomy.InFlight)
			return nil
		})
		require.NoError(t, err)
		require.Equal(t, inbox.Processed, r.Status)
	})
}

func TestADroppedLetterIsForgottenAndItsEventIsNot(t *testing.T) {
	bubble(t, func(t *testing.T, st *memstore.Store) {
		in := newInbox(t, st)
		bury(t, in)
		require.NoError(t, in.Drop(t.Context(), event.Source, event.ID))
		require.Empty(t, letters(t, in, ""))
		require.ErrorIs(t, in.Drop(t.Context(), event.Source, event.ID), inbox.ErrNoLetter)
		r, err := in.Receive(t.Context(), event, nil)
		require.NoError(t, err)
		require.Equal(t, inbox.Replayed, r.Status)
		require.True(t, r.Dead())
		require.ErrorIs(t, in.Drop(t.Context(), "", ""), taxonomy.BadRequest)
	})
}

// Each write on the way to a dead letter and back may be the last one that a process makes. Whatever it is, the event
// is in the end handled once, or a letter that says so is left.
func TestNoCrashBetweenTwoWritesLosesAnEventOrHandlesOneTwice(t *testing.T) {
	for writes := range 12 {
		bubble(t, func(t *testing.T, st *memstore.Store) {
			killed := mortal(st, writes)
			applied := 0
			live := func() *inbox.Inbox { return newInbox(t, st, inbox.MaxAttempts(1)) }
			doomed := newInbox(t, killed, inbox.MaxAttempts(1))

			acknowledged := false
			if _, err := doomed.Receive(t.Context(), event, func(context.Context, inbox.Event) error { return errHandler }); err == nil {
				acknowledged = true
				_, _ = doomed.Redrive(t.Context(), event.Source, event.ID, func(context.Context, inbox.Event) error {
					if killed.writes < killed.left {
						applied++ // in the gap after it the plain mode can't help: see TestAnOutcomeThatIsNotRecordedIsNotAcknowledged
					}
					return nil
				})
			}
			// The next process: the producer delivers again unless it was told to stop, and an operator redrives what is listed.
			time.Sleep(inbox.DefaultLeaseTTL)
			if !acknowledged {
				_, err := live().Receive(t.Context(), event, func(context.Context, inbox.Event) error { return errHandler })
				require.NoError(t, err, "after %d writes", writes)
			}
			for range 2 {
				for _, l := range letters(t, live(), "") {
					_, err := live().Redrive(t.Context(), l.Source, l.ID, func(context.Context, inbox.Event) error {
						applied++
						return nil
					})
					require.NoError(t, err, "after %d writes", writes)
				}
			}
			require.Equal(t, 1, applied, "after %d writes", writes)
			require.Empty(t, letters(t, live(), ""))
			r, err := live().Receive(t.Context(), event, nil)
			require.NoError(t, err)
			require.Equal(t, inbox.Replayed, r.Status)
			require.False(t, r.Dead())
		})
	}
}

// The record of the first has expired and its letter has not, when another event comes under its id.
func TestALetterIsNotWrittenOverByAnotherPayload(t *testing.T) {
	bubble(t, func(t *testing.T, st *memstore.Store) {
		in := newInbox(t, st)
		bury(t, in)
		time.Sleep(inbox.DefaultRetention)
		other := event
		other.Payload = []byte("other")
		_, err := in.Receive(t.Context(), other, func(context.Context, inbox.Event) error { return inbox.Reject(errHandler) })
		refused(t, err, taxonomy.PayloadMismatch)
		list := letters(t, in, "")
		require.Len(t, list, 1)
		require.Equal(t, event.Payload, list[0].Payload)
	})
}

func TestALetterThatCannotBeReadIsToldOf(t *testing.T) {
	bubble(t, func(t *testing.T, st *memstore.Store) {
		in := newInbox(t, st)
		_, err := st.Reserve(t.Context(), store.Claim{ID: letterRecord, Retention: time.Hour, Meta: []byte{9}})
		require.NoError(t, err)
		for l, err := range in.DeadLetters(t.Context(), "") {
			refused(t, err, inbox.Unreadable)
			require.Zero(t, l)
		}
		_, err = in.Redrive(t.Context(), event.Source, event.ID, nil)
		refused(t, err, inbox.Unreadable)
		require.NoError(t, in.Drop(t.Context(), event.Source, event.ID))
	})
}
