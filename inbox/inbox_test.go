package inbox_test

import (
	"context"
	"encoding/csv"
	"errors"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/inbox"
	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/memstore"
	"github.com/redo-go/redo/taxonomy"
)

// The table holds the times of each delivery and its result. The ledger holds the event once.
func TestTheConsumerTableReplaysAsPrinted(t *testing.T) {
	f, err := os.Open("../store/testdata/consumer_inbox.csv")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, f.Close()) })
	rows, err := csv.NewReader(f).ReadAll()
	require.NoError(t, err)
	require.Equal(t, []string{"event_id", "source", "first_seen", "processed", "result"}, rows[0])
	require.Len(t, rows, 3)
	results := map[inbox.Status]string{inbox.Processed: "ok", inbox.Replayed: "replayed"}

	bubble(t, func(t *testing.T, st *memstore.Store) {
		in := newInbox(t, st)
		start, printed := time.Now(), instant(t, rows[1][2])
		ledger := map[string]int{}
		for _, row := range rows[1:] {
			seen, processed, want := instant(t, row[2]), instant(t, row[3]), row[4]
			time.Sleep(time.Until(start.Add(seen.Sub(printed))))
			r, err := in.Receive(t.Context(), inbox.Event{Source: row[1], ID: row[0], Payload: []byte("the event")},
				func(_ context.Context, ev inbox.Event) error {
					time.Sleep(processed.Sub(seen)) // the work
					ledger[ev.Source+"/"+ev.ID]++
					return nil
				})
			require.NoError(t, err)
			require.Equal(t, want, results[r.Status])
			require.Equal(t, processed.Sub(printed), time.Since(start), "when it was done with")
			require.Equal(t, inbox.Receipt{
				Source: row[1], ID: row[0], PayloadHash: store.Raw("", "", "", []byte("the event")), Status: r.Status,
				ReceivedAt: start.UTC().Round(0), ProcessedAt: start.Add(3 * second).UTC().Round(0), Attempts: 1,
			}, plainTimes(r), "the first delivery's record")
		}
		require.Equal(t, map[string]int{"payments/ev_001": 1}, ledger)
	})
}

func instant(t *testing.T, s string) time.Time {
	t.Helper()
	at, err := time.Parse(time.RFC3339, s)
	require.NoError(t, err)
	return at
}

// plainTimes takes the monotonic readings and the zones off.
func plainTimes(r inbox.Receipt) inbox.Receipt {
	r.ReceivedAt, r.ProcessedAt = r.ReceivedAt.UTC().Round(0), r.ProcessedAt.UTC().Round(0)
	return r
}

func TestAnotherDeliveryIsRefusedWhileOneIsHandled(t *testing.T) {
	bubble(t, func(t *testing.T, st *memstore.Store) {
		in := newInbox(t, st, inbox.LeaseTTL(30*second))
		go func() {
			r, err := in.Receive(t.Context(), event, func(context.Context, inbox.Event) error {
				time.Sleep(55 * second) // longer than the lease, which is renewed
				return nil
			})
			require.NoError(t, err)
			require.Equal(t, inbox.Processed, r.Status)
		}()
		synctest.Wait()
		for range 5 {
			time.Sleep(10 * second)
			synctest.Wait()
			_, err := in.Receive(t.Context(), event, unused)
			e := refused(t, err, taxonomy.InFlight)
			require.Equal(t, 1, e.Attempts)
			require.Equal(t, 30*second, e.RetryAfter, "the lease was renewed a moment ago")
		}
		time.Sleep(6 * second)
		r, err := in.Receive(t.Context(), event, unused)
		require.NoError(t, err)
		require.Equal(t, inbox.Replayed, r.Status)
		require.Equal(t, 55*second, r.ProcessedAt.Sub(r.ReceivedAt))
	})
}

func TestAnotherPayloadUnderTheIDIsAConflictUntilTheEventIsSettled(t *testing.T) {
	bubble(t, func(t *testing.T, st *memstore.Store) {
		in := newInbox(t, st, inbox.MaxAttempts(2))
		other := event
		other.Payload = []byte("other")
		h := &scripted{errs: []error{errHandler, errHandler}}
		conflict := func() {
			_, err := in.Receive(t.Context(), other, unused)
			refused(t, err, taxonomy.PayloadMismatch)
		}
		acknowledged := func(of inbox.Receipt) {
			r, err := in.Receive(t.Context(), other, unused)
			require.NoError(t, err)
			of.Status, of.PayloadMismatch = inbox.Replayed, true
			require.Equal(t, plainTimes(of), plainTimes(r))
			r, err = in.Receive(t.Context(), event, unused)
			require.NoError(t, err)
			require.False(t, r.PayloadMismatch)
		}
		_, err := in.Receive(t.Context(), event, func(ctx context.Context, ev inbox.Event) error {
			conflict()
			return h.handle(ctx, ev)
		})
		refused(t, err, inbox.HandlerFailed)
		conflict()
		time.Sleep(second)
		r, err := in.Receive(t.Context(), event, h.handle)
		require.NoError(t, err)
		require.Equal(t, inbox.DeadLettered, r.Status)
		acknowledged(r)
		require.Equal(t, event.Payload, letters(t, in, "")[0].Payload)
		r, err = in.Redrive(t.Context(), event.Source, event.ID, h.handle)
		require.NoError(t, err)
		require.Equal(t, inbox.Processed, r.Status)
		acknowledged(r)

		elsewhere := other
		elsewhere.Source = "orders"
		_, err = in.Receive(t.Context(), elsewhere, h.handle)
		require.NoError(t, err, "the same id of another source is another event")
	})
}

func TestAFailedEventRestsAndIsThenHandledByTheNextDelivery(t *testing.T) {
	bubble(t, func(t *testing.T, st *memstore.Store) {
		in := newInbox(t, st, inbox.Backoff(func(n int) time.Duration { return time.Duration(n) * 10 * second }))
		received := time.Now()
		h := &scripted{errs: []error{errHandler, errHandler}}
		for n := 1; n <= 2; n++ {
			_, err := in.Receive(t.Context(), event, h.handle)
			e := refused(t, err, inbox.HandlerFailed)
			require.Same(t, errHandler, e.Err, "it is the error of the handler itself")
			require.Equal(t, n, e.Attempts)
			require.Equal(t, time.Duration(n)*10*second, e.RetryAfter)

			time.Sleep(e.RetryAfter - second)
			_, err = in.Receive(t.Context(), event, h.handle)
			e = refused(t, err, taxonomy.InFlight)
			require.Equal(t, second, e.RetryAfter, "the remaining time of the rest")
			time.Sleep(second)
		}
		r, err := in.Receive(t.Context(), event, h.handle)
		require.NoError(t, err)
		require.Equal(t, 3, r.Attempts, "refused deliveries are no attempts")
		require.Equal(t, inbox.Processed, r.Status)
		require.Empty(t, r.Failure)
		require.Len(t, h.events, 3)
		for i, ev := range h.events {
			require.Equal(t, i+1, ev.Attempt)
			require.Equal(t, received.UnixNano(), ev.ReceivedAt.UnixNano())
			require.Equal(t, event.Payload, ev.Payload)
		}
		require.Empty(t, letters(t, in, ""))
	})
}

// The attempts of a process that dies count, so that an event can't kill for ever.
func TestAttemptsThatNeverEndedCount(t *testing.T) {
	bubble(t, func(t *testing.T, st *memstore.Store) {
		in := newInbox(t, dying{st}, inbox.MaxAttempts(2))
		for n := 1; n <= 2; n++ {
			func() {
				defer func() { require.NotNil(t, recover()) }()
				_, _ = in.Receive(t.Context(), event, func(_ context.Context, ev inbox.Event) error {
					require.Equal(t, n, ev.Attempt)
					panic("killed")
				})
			}()
			time.Sleep(inbox.DefaultLeaseTTL)
		}
		r, err := newInbox(t, st, inbox.MaxAttempts(2)).Receive(t.Context(), event,
			func(context.Context, inbox.Event) error {
				t.Error("it was handled once more")
				return nil
			})
		require.NoError(t, err)
		require.Equal(t, inbox.DeadLettered, r.Status)
		require.Equal(t, 2, r.Attempts)
		require.Equal(t, "the attempt did not end", r.Failure)
		require.Equal(t, event.Payload, letters(t, in, "")[0].Payload)
	})
}

// An operator needs the error of the earlier attempt, because the death of a process explains nothing.
func TestADeadLetterWhoseLastAttemptDiedKeepsTheEarlierError(t *testing.T) {
	bubble(t, func(t *testing.T, st *memstore.Store) {
		in := newInbox(t, dying{st}, inbox.MaxAttempts(2))
		_, err := in.Receive(t.Context(), event, returns(errHandler))
		time.Sleep(refused(t, err, inbox.HandlerFailed).RetryAfter)
		require.PanicsWithValue(t, "killed", func() {
			_, _ = in.Receive(t.Context(), event, func(context.Context, inbox.Event) error { panic("killed") })
		})
		time.Sleep(inbox.DefaultLeaseTTL)
		r, err := in.Receive(t.Context(), event, returns(nil))
		require.NoError(t, err)
		require.Equal(t, inbox.DeadLettered, r.Status)
		require.Equal(t, errHandler.Error(), r.Failure)
		require.Equal(t, errHandler.Error(), letters(t, in, "")[0].Failure)
	})
}

// A dying store accepts no write from a process whose handler panics, as after a kill.
type dying struct{ *memstore.Store }

func (d dying) Extend(ctx context.Context, l store.Lease, ttl time.Duration, meta []byte) error {
	if meta != nil && strings.Contains(string(meta), "panicked") {
		return store.ErrUnavailable
	}
	return d.Store.Extend(ctx, l, ttl, meta)
}

func TestAPanicIsAFailedAttemptAndGoesOn(t *testing.T) {
	bubble(t, func(t *testing.T, st *memstore.Store) {
		in := newInbox(t, st)
		require.PanicsWithValue(t, "boom", func() {
			_, _ = in.Receive(t.Context(), event, func(context.Context, inbox.Event) error { panic("boom") })
		})
		_, err := in.Receive(t.Context(), event, unused)
		e := refused(t, err, taxonomy.InFlight)
		require.Equal(t, second, e.RetryAfter, "it rests for the backoff, and not for the lease")
		time.Sleep(second)
		r, err := in.Receive(t.Context(), event, (&scripted{}).handle)
		require.NoError(t, err)
		require.Equal(t, 2, r.Attempts)
	})
}

func TestALostLeaseEndsTheHandler(t *testing.T) {
	bubble(t, func(t *testing.T, st *memstore.Store) {
		in := newInbox(t, st, inbox.LeaseTTL(30*second))
		start := time.Now()
		_, err := in.Receive(t.Context(), event, func(ctx context.Context, _ inbox.Event) error {
			rec, err := st.Find(ctx, eventRecord)
			require.NoError(t, err)
			require.NoError(t, st.Extend(ctx, rec.Lease(), 0, nil))
			r, err := in.Receive(ctx, event, (&scripted{}).handle)
			require.NoError(t, err, "another process takes it over")
			require.Equal(t, inbox.Processed, r.Status)
			<-ctx.Done()
			require.ErrorIs(t, context.Cause(ctx), store.ErrLost)
			require.Equal(t, 10*second, time.Since(start), "at the first renewal")
			return ctx.Err()
		})
		refused(t, err, inbox.HandlerFailed)
		r, err := in.Receive(t.Context(), event, unused)
		require.NoError(t, err)
		require.Equal(t, inbox.Replayed, r.Status)
		require.Equal(t, 2, r.Attempts)
		require.False(t, r.Dead())
	})
}

// An owner that has lost an event writes no letter for it.
func TestAStaleOwnerBuriesNothing(t *testing.T) {
	bubble(t, func(t *testing.T, st *memstore.Store) {
		in := newInbox(t, st)
		_, err := in.Receive(t.Context(), event, func(ctx context.Context, _ inbox.Event) error {
			rec, err := st.Find(ctx, eventRecord)
			require.NoError(t, err)
			require.NoError(t, st.Release(ctx, rec.Lease()))
			_, err = in.Receive(ctx, event, (&scripted{}).handle)
			require.NoError(t, err)
			return inbox.Reject(errHandler)
		})
		refused(t, err, taxonomy.InFlight)
		require.Empty(t, letters(t, in, ""))
		r, err := in.Receive(t.Context(), event, unused)
		require.NoError(t, err)
		require.False(t, r.Dead())
	})
}

func TestTheOutcomeIsWrittenAlthoughTheDeliveryHasEnded(t *testing.T) {
	bubble(t, func(t *testing.T, st *memstore.Store) {
		in := newInbox(t, st)
		ctx, cancel := context.WithCancel(t.Context())
		r, err := in.Receive(ctx, event, func(context.Context, inbox.Event) error {
			cancel()
			return nil
		})
		require.NoError(t, err)
		require.Equal(t, inbox.Processed, r.Status)
		_, err = in.Receive(ctx, event, unused)
		require.ErrorIs(t, err, context.Canceled)
	})
}

func TestAnEventIsRememberedForTheRetentionFromItsLastAttempt(t *testing.T) {
	bubble(t, func(t *testing.T, st *memstore.Store) {
		in := newInbox(t, st)
		h := &scripted{errs: []error{errHandler}}
		_, err := in.Receive(t.Context(), event, h.handle)
		refused(t, err, inbox.HandlerFailed)
		time.Sleep(inbox.DefaultRetention - time.Hour)
		_, err = in.Receive(t.Context(), event, h.handle)
		require.NoError(t, err)
		time.Sleep(inbox.DefaultRetention - time.Second)
		r, err := in.Receive(t.Context(), event, h.handle)
		require.NoError(t, err)
		require.Equal(t, inbox.Replayed, r.Status)
		time.Sleep(time.Second)
		r, err = in.Receive(t.Context(), event, h.handle)
		require.NoError(t, err)
		require.Equal(t, inbox.Processed, r.Status)
	})
}

func TestAnEventOutsideTheLimitsIsRefused(t *testing.T) {
	bubble(t, func(t *testing.T, st *memstore.Store) {
		in := newInbox(t, st)
		for _, c := range []struct {
			ev   inbox.Event
			code taxonomy.Code
			want string
		}{
			{inbox.Event{ID: "a"}, taxonomy.BadRequest, "the source is empty"},
			{inbox.Event{Source: "s"}, taxonomy.BadRequest, "the id is empty"},
			{inbox.Event{Source: strings.Repeat("s", inbox.MaxSource+1), ID: "a"}, taxonomy.BadRequest,
				"the source has 1011 bytes, at most 1010 are allowed"},
			{inbox.Event{Source: "s", ID: strings.Repeat("a", 1025)}, taxonomy.BadRequest,
				"the id has 1025 bytes, at most 1024 are allowed"},
			{inbox.Event{Source: "s", ID: "a", Payload: make([]byte, inbox.MaxPayload+1)}, taxonomy.ContentTooLarge,
				"the payload has 1024001 bytes, at most 1024000 are allowed"},
		} {
			_, err := in.Receive(t.Context(), c.ev, unused)
			refused(t, err, c.code)
			require.ErrorIs(t, err, store.ErrInvalid)
			require.EqualError(t, err, "inbox: "+string(c.code)+": store: invalid argument: "+c.want)
		}
		largest := inbox.Event{
			Source: strings.Repeat("s", inbox.MaxSource), ID: strings.Repeat("a", inbox.MaxID),
			Payload: make([]byte, inbox.MaxPayload),
		}
		r, err := in.Receive(t.Context(), largest, func(context.Context, inbox.Event) error {
			return inbox.Reject(errors.New(strings.Repeat("é", 1<<20)))
		})
		require.NoError(t, err, "the largest event fits a letter, with the longest error")
		require.Equal(t, inbox.DeadLettered, r.Status)
		list := letters(t, in, largest.Source)
		require.Len(t, list, 1)
		require.Equal(t, largest.Payload, list[0].Payload)
		require.Len(t, list[0].Failure, 2047, "no character is cut: the prefix has an odd length")
	})
}

func TestARecordOfAnotherVersionIsNotOverwritten(t *testing.T) {
	bubble(t, func(t *testing.T, st *memstore.Store) {
		in := newInbox(t, st)
		claim := store.Claim{
			ID: eventRecord, Fingerprint: store.Raw("", "", "", event.Payload), Retention: time.Hour,
			Meta: []byte(`{"v":4}`),
		}
		_, err := st.Reserve(t.Context(), claim)
		require.NoError(t, err)
		_, err = in.Receive(t.Context(), event, unused)
		refused(t, err, inbox.Unreadable)
		rec, err := st.Find(t.Context(), eventRecord)
		require.NoError(t, err)
		require.Equal(t, claim.Meta, rec.Meta)
		require.Zero(t, rec.LeaseLeft())

		g, err := st.Reserve(t.Context(), claim)
		require.NoError(t, err)
		require.NoError(t, st.Complete(t.Context(), g.Lease, store.Outcome{Result: []byte(`{"v":4}`)}))
		_, err = in.Receive(t.Context(), event, unused)
		refused(t, err, inbox.Unreadable)
	})
}

func TestAnIDCanBeDerivedFromThePayload(t *testing.T) {
	require.Equal(t, store.Raw("", "", "", []byte("a")).String(), inbox.DeriveID([]byte("a")))
	require.NotEqual(t, inbox.DeriveID([]byte("a")), inbox.DeriveID([]byte("b")))
}

func TestAnErrorNamesItsEvent(t *testing.T) {
	for want, e := range map[string]inbox.Error{
		`inbox: event "payments"/"": `:  {Source: "payments"},
		`inbox: event ""/"ev_1": `:      {ID: "ev_1"},
		`inbox: VALIDATION.bad_request`: {},
	} {
		e.Code = taxonomy.BadRequest
		require.Contains(t, e.Error(), want)
	}
}
