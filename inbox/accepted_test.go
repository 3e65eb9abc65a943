package inbox_test

import (
	"context"
	"errors"
	"iter"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo"
	"github.com/redo-go/redo/inbox"
	"github.com/redo-go/redo/outbox"
	"github.com/redo-go/redo/outbox/memoutbox"
	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/taxonomy"
)

// The queue takes short ASCII ids only. The inbox's records keep the producer's.
func TestAnyIDOfAProducerIsAccepted(t *testing.T) {
	plain := "ev_001"
	ids := []string{
		plain, "with space", "é", "\x00\xff", strings.Repeat("a", inbox.MaxID),
		"inbox-sha256-" + inbox.DeriveID([]byte("é")),
	}
	accepting(t, func(t *testing.T, a *acceptance) {
		for _, id := range ids {
			a.h.errs = append(a.h.errs, inbox.Reject(errHandler))
			for range 2 {
				a.accept(t, inbox.Event{Source: "payments", ID: id, Payload: []byte(id)}, inbox.Accepted)
			}
		}
		a.work(t, second)
		var got, dead []string
		for _, ev := range a.h.events {
			require.Equal(t, ev.ID, string(ev.Payload))
			got = append(got, ev.ID)
		}
		require.ElementsMatch(t, ids, got)
		for _, l := range letters(t, a, "") {
			dead = append(dead, l.ID)
			_, err := a.st.Find(t.Context(), store.ID{Scope: eventRecord.Scope, Key: l.ID})
			require.NoError(t, err)
			require.NoError(t, a.Redrive(t.Context(), l.Source, l.ID))
		}
		require.ElementsMatch(t, ids, dead)
		a.work(t, second)
		require.Len(t, a.h.events, 2*len(ids))
	})
	accepting(t, func(t *testing.T, a *acceptance) {
		for name, ev := range map[string]inbox.Event{
			"destination is the source": {Source: "\x00", ID: plain},
			"ordering key": {
				Source: "s", ID: plain, OrderingKey: strings.Repeat("k", outbox.MaxOrderingKey+1),
			},
		} {
			_, err := a.Receive(t.Context(), ev)
			refused(t, err, taxonomy.BadRequest)
			require.ErrorContains(t, err, name)
		}
	})
}

// An event that another program has enqueued is no event of the inbox, and hides none.
func TestAForeignEventInTheQueueIsADeadLetter(t *testing.T) {
	const received = "2026-11-27T09:00:00Z"
	for _, h := range []http.Header{
		nil,
		{"Redo-Inbox-Id": {"%zz"}, "Redo-Inbox-Received": {received}},
		{"Redo-Inbox-Id": {"id"}, "Redo-Inbox-Received": {"yesterday"}},
		{"Redo-Inbox-Id": {""}, "Redo-Inbox-Received": {received}},
	} {
		accepting(t, func(t *testing.T, a *acceptance) {
			foreign := outbox.Event{ID: "foreign", Destination: "payments", Header: h}
			require.NoError(t, a.queue.Append(t.Context(), foreign))
			a.h.errs = []error{inbox.Reject(errHandler)}
			a.accept(t, event, inbox.Accepted)
			a.work(t, second)
			require.Len(t, a.h.events, 1)
			var ids []string
			for l, err := range a.DeadLetters(t.Context(), "") {
				ids = append(ids, l.ID)
				require.Equal(t, l.ID == "foreign", errors.Is(err, inbox.Unreadable))
			}
			require.ElementsMatch(t, []string{"foreign", event.ID}, ids)
			refusal := a.Drop(t.Context(), "payments", "foreign")
			refused(t, refusal, inbox.Unreadable)
		})
	}
}

// The handler calls another service by a redo client. That call's effect is not the event's.
func TestAHandlersErrorIsNotTakenForASuccess(t *testing.T) {
	accepting(t, func(t *testing.T, a *acceptance) {
		a.h.errs = []error{
			&redo.Error{Code: taxonomy.ResultNotStored, Effect: redo.Applied}, taxonomy.Duplicate,
		}
		a.accept(t, event, inbox.Accepted)
		a.work(t, time.Minute)
		require.Len(t, a.h.events, 3)
		require.Equal(t, inbox.Replayed, a.accept(t, event, inbox.Replayed).Status)
	})
}

// The queue's lists are not one snapshot: the event is claimed between two of them.
// A receipt with a failure is a dead letter's.
func TestADeadLetterWhoseErrorHasNoTextIsDead(t *testing.T) {
	for text, want := range map[string]string{
		"": "an error without a text", "the ledger is closed": "the ledger is closed",
	} {
		accepting(t, func(t *testing.T, a *acceptance) {
			failed := errors.New(text)
			a.h.errs = []error{failed, failed, failed}
			a.accept(t, event, inbox.Accepted)
			a.work(t, time.Minute)
			r := a.accept(t, event, inbox.Replayed)
			require.True(t, r.Dead())
			require.Equal(t, want, r.Failure)
			require.Equal(t, want, letters(t, a, "")[0].Failure)
		})
	}
}

func TestAnEventThatAListMissesIsFoundByTheNext(t *testing.T) {
	accepting(t, func(t *testing.T, a *acceptance) {
		q := &missing{Queue: a.queue}
		missed, err := inbox.Accept(q, newInbox(t, a.st).Receiver(a.h.handle))
		require.NoError(t, err)
		_, err = missed.Receive(t.Context(), event)
		require.NoError(t, err)
		other := event
		other.Payload = []byte("other")
		_, err = missed.Receive(t.Context(), other)
		refused(t, err, taxonomy.PayloadMismatch)
		q.missed = false
		r, err := missed.Receive(t.Context(), event)
		require.NoError(t, err)
		require.Equal(t, inbox.Accepted, r.Status)
	})
}

// A missing queue lists nothing at first.
type missing struct {
	*memoutbox.Queue
	missed bool
}

func (m *missing) Events(ctx context.Context, s outbox.Selection) iter.Seq2[outbox.Entry, error] {
	if !m.missed {
		m.missed = true
		return func(func(outbox.Entry, error) bool) {}
	}
	return m.Queue.Events(ctx, s)
}
