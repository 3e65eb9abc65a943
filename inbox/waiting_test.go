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

// failOnce makes one failed delivery of the event. The producer makes no other.
func failOnce(t *testing.T, in *inbox.Inbox) {
	t.Helper()
	_, err := in.Receive(t.Context(), event, returns(errHandler))
	refused(t, err, inbox.HandlerFailed)
}

func TestThePayloadIsKeptFromTheFirstFailureOn(t *testing.T) {
	bubble(t, func(t *testing.T, st *memstore.Store) {
		in := newInbox(t, st, inbox.MaxAttempts(3))
		start := time.Now().UTC().Round(0)
		want := inbox.FailedEvent{
			Source: event.Source, ID: event.ID, Payload: event.Payload,
			PayloadHash: store.Raw("", "", "", event.Payload),
			ReceivedAt:  start, FailedAt: start, DueAt: start.Add(second), Attempts: 1, Failure: "the ledger is closed",
		}
		failOnce(t, in)
		require.Equal(t, []inbox.FailedEvent{want}, waiting(t, in, ""))
		require.Equal(t, []inbox.FailedEvent{want}, waiting(t, in, event.Source))
		require.Empty(t, waiting(t, in, "orders"))
		require.Empty(t, letters(t, in, ""))

		time.Sleep(second)
		want.DueAt = time.Time{}
		require.Equal(t, []inbox.FailedEvent{want}, waiting(t, in, ""), "it has rested")
		_, err := in.Receive(t.Context(), event, func(context.Context, inbox.Event) error {
			want.Attempts, want.FailedAt, want.DueAt = 2, start.Add(second), start.Add(second+inbox.DefaultLeaseTTL)
			require.Equal(t, []inbox.FailedEvent{want}, waiting(t, in, ""),
				"the second attempt may be the process's last")
			return errors.New("again")
		})
		refused(t, err, inbox.HandlerFailed)
		require.Equal(t, "again", waiting(t, in, "")[0].Failure)

		time.Sleep(2 * second)
		r, err := in.Receive(t.Context(), event, (&scripted{}).handle)
		require.NoError(t, err)
		require.Equal(t, inbox.Processed, r.Status)
		require.Empty(t, waiting(t, in, ""))
		rec, err := st.Find(t.Context(), eventRecord)
		require.NoError(t, err)
		require.NotContains(t, string(rec.Result), string(event.Payload))
	})
}

// The producer delivers again, so the payload of a first attempt need not be kept before it fails.
func TestAFirstAttemptKeepsNoPayload(t *testing.T) {
	bubble(t, func(t *testing.T, st *memstore.Store) {
		in := newInbox(t, st)
		_, err := in.Receive(t.Context(), event, func(context.Context, inbox.Event) error {
			require.Empty(t, waiting(t, in, ""))
			rec, err := st.Find(t.Context(), eventRecord)
			require.NoError(t, err)
			require.NotContains(t, string(rec.Meta), string(event.Payload))
			require.ErrorIs(t, redriven(t, in), inbox.ErrNoLetter)
			return nil
		})
		require.NoError(t, err)
		rec, err := st.Find(t.Context(), eventRecord)
		require.NoError(t, err)
		require.NotContains(t, string(rec.Meta)+string(rec.Result), string(event.Payload))
	})
}

func redriven(t *testing.T, in *inbox.Inbox) error {
	t.Helper()
	_, err := in.Redrive(t.Context(), event.Source, event.ID, unused)
	return err
}

// The producer has given up. Years later an operator finds the event.
func TestAWaitingEventIsRedriven(t *testing.T) {
	for name, wait := range map[string]time.Duration{"while it rests": 0, "years later": 5 * 365 * 24 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, st *memstore.Store) {
				in := newInbox(t, st)
				failOnce(t, in)
				time.Sleep(wait)
				h := &scripted{}
				for _, w := range waiting(t, in, "") {
					r, err := in.Redrive(t.Context(), w.Source, w.ID, h.handle)
					require.NoError(t, err)
					require.Equal(t, inbox.Processed, r.Status)
					require.Equal(t, 2, r.Attempts)
				}
				require.Len(t, h.events, 1)
				require.Equal(t, event.Payload, h.events[0].Payload)
				require.Empty(t, waiting(t, in, ""))
				r, err := in.Receive(t.Context(), event, h.handle)
				require.NoError(t, err)
				require.Equal(t, inbox.Replayed, r.Status)
			})
		})
	}
}

func TestAWaitingEventWhoseRedriveFailsIsADeadLetter(t *testing.T) {
	bubble(t, func(t *testing.T, st *memstore.Store) {
		in := newInbox(t, st)
		failOnce(t, in)
		r, err := in.Redrive(t.Context(), event.Source, event.ID, returns(errHandler))
		require.NoError(t, err)
		require.Equal(t, inbox.DeadLettered, r.Status)
		require.Empty(t, waiting(t, in, ""))
		require.Equal(t, 2, letters(t, in, "")[0].Attempts)
	})
}

// An event that another delivery is handling is not resting, and a redrive must not take it over.
func TestARedriveTakesNoEventFromADelivery(t *testing.T) {
	bubble(t, func(t *testing.T, st *memstore.Store) {
		in := newInbox(t, st)
		failOnce(t, in)
		time.Sleep(second)
		_, err := in.Receive(t.Context(), event, func(context.Context, inbox.Event) error {
			refused(t, redriven(t, in), taxonomy.InFlight)
			refused(t, in.Drop(t.Context(), event.Source, event.ID), taxonomy.InFlight)
			return nil
		})
		require.NoError(t, err)
	})
	// The delivery comes after the redrive has read the event.
	bubble(t, func(t *testing.T, st *memstore.Store) {
		in := newInbox(t, st)
		failOnce(t, in)
		overtaken := &overtaking{Store: st}
		overtaken.before = func() {
			time.Sleep(second)
			_, err := in.Receive(t.Context(), event, func(context.Context, inbox.Event) error {
				refused(t, redriven(t, newInbox(t, overtaken)), taxonomy.InFlight)
				return nil
			})
			require.NoError(t, err)
		}
		r, err := newInbox(t, overtaken).Redrive(t.Context(), event.Source, event.ID, unused)
		require.NoError(t, err)
		require.Equal(t, inbox.Replayed, r.Status)
	})
	// The delivery owns the event, and has not counted its attempt: the record shows the failure before.
	bubble(t, func(t *testing.T, st *memstore.Store) {
		in := newInbox(t, st)
		failOnce(t, in)
		time.Sleep(second)
		overtaken := &overtaking{Store: st, before: func() {
			refused(t, redriven(t, in), taxonomy.InFlight)
			refused(t, in.Drop(t.Context(), event.Source, event.ID), taxonomy.InFlight)
		}}
		_, err := newInbox(t, overtaken).Receive(t.Context(), event, (&scripted{}).handle)
		require.NoError(t, err)
	})
}

// An operator who drops an event that is being handled learns when its attempt must have ended.
func TestADropDuringAnAttemptReportsTheRestOfTheLease(t *testing.T) {
	bubble(t, func(t *testing.T, st *memstore.Store) {
		in := newInbox(t, st)
		failOnce(t, in)
		time.Sleep(second)
		_, err := in.Receive(t.Context(), event, func(context.Context, inbox.Event) error {
			time.Sleep(4 * second) // the lease is renewed later
			e := refused(t, in.Drop(t.Context(), event.Source, event.ID), taxonomy.InFlight)
			require.Equal(t, inbox.DefaultLeaseTTL-4*second, e.RetryAfter)
			require.Equal(t, 2, e.Attempts)
			return nil
		})
		require.NoError(t, err)
	})
}

// An overtaking store calls before once, before an Extend.
type overtaking struct {
	*memstore.Store
	before func()
}

func (o *overtaking) Extend(ctx context.Context, l store.Lease, d time.Duration, meta []byte) error {
	if before := o.before; before != nil {
		o.before = nil
		before()
	}
	return o.Store.Extend(ctx, l, d, meta)
}

func TestADroppedWaitingEventIsNotHandled(t *testing.T) {
	bubble(t, func(t *testing.T, st *memstore.Store) {
		in := newInbox(t, st)
		failOnce(t, in)
		require.NoError(t, in.Drop(t.Context(), event.Source, event.ID))
		require.Empty(t, waiting(t, in, ""))
		require.Empty(t, letters(t, in, ""))
		require.ErrorIs(t, in.Drop(t.Context(), event.Source, event.ID), inbox.ErrNoLetter)
		rec, err := st.Find(t.Context(), eventRecord)
		require.NoError(t, err)
		require.NotContains(t, string(rec.Result), string(event.Payload))
		r, err := in.Receive(t.Context(), event, unused)
		require.NoError(t, err)
		require.Equal(t, inbox.Replayed, r.Status)
		require.True(t, r.Dead())
		require.Equal(t, "the ledger is closed", r.Failure)
		time.Sleep(inbox.DefaultRetention)
		r, err = in.Receive(t.Context(), event, (&scripted{}).handle)
		require.NoError(t, err)
		require.Equal(t, inbox.Processed, r.Status, "it is forgotten after the retention")
	})
}

// The failure could not be stored, and the lease expires.
func TestAFailureThatIsNotStoredIsReported(t *testing.T) {
	bubble(t, func(t *testing.T, st *memstore.Store) {
		in := newInbox(t, mortal(st, 1))
		_, err := in.Receive(t.Context(), event, returns(errHandler))
		refused(t, err, inbox.HandlerFailed)
		require.ErrorIs(t, err, errHandler)
		require.ErrorIs(t, err, store.ErrUnavailable)
	})
}
