package inbox_test

import (
	"context"
	"errors"
	"iter"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/inbox"
	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/memstore"
	"github.com/redo-go/redo/taxonomy"
)

// bury makes a dead letter of the event.
func bury(t *testing.T, in *inbox.Inbox) {
	t.Helper()
	r, err := in.Receive(t.Context(), event, returns(inbox.Reject(errHandler)))
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
		require.Equal(t, []inbox.FailedEvent{{
			Source: event.Source, ID: event.ID, Payload: event.Payload, PayloadHash: r.PayloadHash,
			ReceivedAt: start, FailedAt: start.Add(3 * second), Attempts: 3, Failure: "the ledger is closed",
		}}, letters(t, in, "payments"))
		require.Equal(t, letters(t, in, ""), letters(t, in, "payments"))
		require.Empty(t, letters(t, in, "orders"))

		require.Empty(t, waiting(t, in, ""))
		r, err = in.Receive(t.Context(), event, h.handle)
		require.NoError(t, err)
		require.Equal(t, inbox.Replayed, r.Status)
		require.Equal(t, "the ledger is closed", r.Failure)
		require.Len(t, h.events, 3, "a dead letter's further deliveries are not handled")
		time.Sleep(30 * 24 * time.Hour)
		r, err = in.Receive(t.Context(), event, h.handle)
		require.NoError(t, err, "a dead letter is remembered for longer than the retention")
		require.Equal(t, inbox.Replayed, r.Status)
		require.Len(t, letters(t, in, ""), 1)
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
		time.Sleep(30 * 24 * time.Hour)
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
		processed := r.ProcessedAt
		r, err = in.Redrive(t.Context(), event.Source, event.ID, h.handle)
		require.NoError(t, err)
		require.Equal(t, inbox.Replayed, r.Status, "an operator who repeats the command")
		require.Equal(t, processed, r.ProcessedAt)
		require.Len(t, h.events, 1)
		_, err = in.Redrive(t.Context(), event.Source, "ev_002", h.handle)
		require.ErrorIs(t, err, inbox.ErrNoLetter)
		require.EqualError(t, err, `inbox: no such dead letter: "payments"/"ev_002"`)
	})
}

func TestARedriveThatFailsKeepsTheLetterWithItsNewError(t *testing.T) {
	bubble(t, func(t *testing.T, st *memstore.Store) {
		in := newInbox(t, st)
		bury(t, in)
		r, err := in.Redrive(t.Context(), event.Source, event.ID, returns(errors.New("still closed")))
		require.NoError(t, err)
		require.Equal(t, inbox.DeadLettered, r.Status)
		list := letters(t, in, "")
		require.Len(t, list, 1)
		require.Equal(t, "still closed", list[0].Failure)
		require.Equal(t, 2, list[0].Attempts)
		require.Equal(t, event.Payload, list[0].Payload)
	})
}

func TestTwoRedrivesHandleAnEventOnce(t *testing.T) {
	bubble(t, func(t *testing.T, st *memstore.Store) {
		in := newInbox(t, st)
		bury(t, in)
		r, err := in.Redrive(t.Context(), event.Source, event.ID, func(ctx context.Context, _ inbox.Event) error {
			_, err := in.Redrive(ctx, event.Source, event.ID, unused)
			refused(t, err, taxonomy.InFlight)
			_, err = in.Receive(ctx, event, unused)
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
		r, err := in.Receive(t.Context(), event, unused)
		require.NoError(t, err)
		require.Equal(t, inbox.Replayed, r.Status)
		require.True(t, r.Dead())
		require.ErrorIs(t, in.Drop(t.Context(), "", ""), taxonomy.BadRequest)
	})
}

// A dead letter was settled when it died. An event that waits is settled by its drop.
func TestADropIsTheEndOfAnEventThatWaits(t *testing.T) {
	for failure, settled := range map[error]time.Duration{inbox.Reject(errHandler): 0, errHandler: second / 2} {
		bubble(t, func(t *testing.T, st *memstore.Store) {
			in := newInbox(t, st)
			_, _ = in.Receive(t.Context(), event, returns(failure))
			failed := time.Now()
			time.Sleep(second / 2)
			require.NoError(t, in.Drop(t.Context(), event.Source, event.ID))
			r, err := in.Receive(t.Context(), event, unused)
			require.NoError(t, err)
			require.Equal(t, settled, r.ProcessedAt.Sub(failed))
		})
	}
}

func TestALetterThatTheStoreCannotReadNowIsNotMissing(t *testing.T) {
	bubble(t, func(t *testing.T, st *memstore.Store) {
		bury(t, newInbox(t, st))
		in := newInbox(t, &lossy{Store: st, blind: true, until: time.Now().Add(second)})
		refused(t, in.Drop(t.Context(), event.Source, event.ID), taxonomy.Unavailable)
		_, err := in.Redrive(t.Context(), event.Source, event.ID, unused)
		refused(t, err, taxonomy.Unavailable)
		require.Len(t, letters(t, in, ""), 1)
	})
}

// Each write on the way to a dead letter and back may be the last one of a process. In the end the event is handled
// once.
func TestNoCrashBetweenTwoWritesLosesAnEventOrHandlesOneTwice(t *testing.T) {
	for writes := range 12 {
		bubble(t, func(t *testing.T, st *memstore.Store) {
			killed := mortal(st, writes)
			applied := 0
			live := func() *inbox.Inbox { return newInbox(t, st, inbox.MaxAttempts(1)) }
			doomed := newInbox(t, killed, inbox.MaxAttempts(1))

			acknowledged := false
			if _, err := doomed.Receive(t.Context(), event, returns(errHandler)); err == nil {
				acknowledged = true
				_, _ = doomed.Redrive(t.Context(), event.Source, event.ID, func(context.Context, inbox.Event) error {
					if killed.writes < killed.left { // see TestAnOutcomeThatIsNotRecordedIsNotAcknowledged for the gap
						applied++
					}
					return nil
				})
			}
			// In the next process the producer repeats a refused delivery. An operator redrives each letter.
			time.Sleep(inbox.DefaultLeaseTTL)
			if !acknowledged {
				_, err := live().Receive(t.Context(), event, returns(errHandler))
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
			r, err := live().Receive(t.Context(), event, unused)
			require.NoError(t, err)
			require.Equal(t, inbox.Replayed, r.Status)
			require.False(t, r.Dead())
		})
	}
}

func TestAListGoesOnAfterALetterThatCannotBeRead(t *testing.T) {
	bubble(t, func(t *testing.T, st *memstore.Store) {
		in := newInbox(t, st)
		for _, id := range []string{"ev_000", "ev_002"} {
			_, err := st.Reserve(t.Context(), store.Claim{
				ID: store.ID{Scope: eventRecord.Scope, Key: id}, Retention: time.Hour, Meta: []byte{9},
			})
			require.NoError(t, err)
			if id == "ev_000" {
				bury(t, in)
			}
		}
		for _, list := range []iter.Seq2[inbox.FailedEvent, error]{
			in.DeadLetters(t.Context(), ""), in.DeadLetters(t.Context(), event.Source),
		} {
			for range list {
				break
			}
			var readable []string
			var unreadable []inbox.FailedEvent
			for l, err := range list {
				if err == nil {
					readable = append(readable, l.ID)
					continue
				}
				e := refused(t, err, inbox.Unreadable)
				require.Equal(t, l.ID, e.ID)
				require.Equal(t, l.Source, e.Source)
				unreadable = append(unreadable, l)
			}
			require.Equal(t, []string{"ev_001"}, readable)
			require.Equal(t, []inbox.FailedEvent{
				{Source: event.Source, ID: "ev_000"}, {Source: event.Source, ID: "ev_002"},
			}, unreadable)
		}
		_, err := in.Redrive(t.Context(), event.Source, "ev_000", unused)
		refused(t, err, inbox.Unreadable)
		require.NoError(t, in.Drop(t.Context(), event.Source, "ev_000"))
		r, err := in.Receive(t.Context(), inbox.Event{Source: event.Source, ID: "ev_002"}, unused)
		refused(t, err, taxonomy.PayloadMismatch) // the record has no fingerprint
		require.Zero(t, r)
	})
}

// An inbox may share its store with a server.
func TestAListLeavesOutTheRecordsOfOthers(t *testing.T) {
	bubble(t, func(t *testing.T, st *memstore.Store) {
		in := newInbox(t, st)
		_, err := st.Reserve(t.Context(), store.Claim{
			ID: store.ID{Scope: "POST /refunds", Key: "k"}, Retention: time.Hour,
		})
		require.NoError(t, err)
		bury(t, in) // the newer record
		list := letters(t, in, "")
		require.Len(t, list, 1)
		require.Equal(t, event.ID, list[0].ID)
	})
}

// A store yields a damaged record with its ID and an error, and an outage with an error alone.
func TestAListGoesOnAfterADamagedRecordAndEndsWithAnOutage(t *testing.T) {
	bubble(t, func(t *testing.T, st *memstore.Store) {
		bury(t, newInbox(t, st))
		var ids []string
		var errs []error
		for l, err := range newInbox(t, damaged{st}).DeadLetters(t.Context(), event.Source) {
			ids, errs = append(ids, l.ID), append(errs, err)
		}
		require.Equal(t, []string{"ev_000", "ev_001", ""}, ids)
		require.ErrorIs(t, errs[0], store.ErrDamaged)
		refused(t, errs[0], inbox.Unreadable)
		require.NoError(t, errs[1])
		refused(t, errs[2], taxonomy.Unavailable)
	})
}

// A damaged store lists a damaged record, its own records, and an error.
type damaged struct{ *memstore.Store }

func (d damaged) Pending(ctx context.Context, scope string) iter.Seq2[store.Record, error] {
	return func(yield func(store.Record, error) bool) {
		if !yield(store.Record{ID: store.ID{Scope: scope, Key: "ev_000"}}, store.ErrDamaged) {
			return
		}
		for rec, err := range d.Store.Pending(ctx, scope) {
			if !yield(rec, err) {
				return
			}
		}
		yield(store.Record{}, store.ErrUnavailable)
	}
}
