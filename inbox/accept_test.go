package inbox_test

import (
	"context"
	"errors"
	"iter"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/inbox"
	"github.com/redo-go/redo/outbox"
	"github.com/redo-go/redo/outbox/memoutbox"
	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/memstore"
	"github.com/redo-go/redo/taxonomy"
)

// An acceptance is an Acceptor over a queue in memory, with a record of its handler's calls.
type acceptance struct {
	*inbox.Acceptor
	queue *memoutbox.Queue
	st    *memstore.Store
	h     scripted
	seen  watcher
}

// quick makes three attempts, about a second apart.
var quick = outbox.Retry(time.Second, time.Second)

// accepting runs f in virtual time.
func accepting(t *testing.T, f func(t *testing.T, a *acceptance), opts ...outbox.Option) {
	t.Helper()
	bubble(t, func(t *testing.T, st *memstore.Store) {
		a := &acceptance{queue: memoutbox.New(), st: st}
		var err error
		in := newInbox(t, st, inbox.Observe(&a.seen), inbox.MaxAttempts(1)) // the queue has the schedule
		a.Acceptor, err = inbox.Accept(a.queue, in.Receiver(a.h.handle), append([]outbox.Option{quick}, opts...)...)
		require.NoError(t, err)
		f(t, a)
	})
}

// work runs the acceptor for d.
func (a *acceptance) work(t *testing.T, d time.Duration) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	time.Sleep(d)
	synctest.Wait()
	stop()
	require.NoError(t, <-ended)
}

func (a *acceptance) accept(t *testing.T, ev inbox.Event, want inbox.Status) inbox.Receipt {
	t.Helper()
	r, err := a.Receive(t.Context(), ev)
	require.NoError(t, err)
	require.Equal(t, want, r.Status)
	require.Equal(t, ev.ID, r.ID)
	require.Equal(t, ev.Source, r.Source)
	return r
}

func TestAnAcceptedEventIsHandledLaterAndOnce(t *testing.T) {
	accepting(t, func(t *testing.T, a *acceptance) {
		start := time.Now().UTC().Round(0)
		r := a.accept(t, event, inbox.Accepted)
		require.Equal(t, start, r.ReceivedAt.Round(0))
		require.Equal(t, "accepted", r.Status.String())
		require.Equal(t, inbox.Accepted, a.seen.last(t).Status)
		a.accept(t, event, inbox.Accepted)
		require.Empty(t, a.h.events, "not before Run")

		time.Sleep(time.Minute)
		a.seen.seen = nil
		a.work(t, second)
		require.Len(t, a.h.events, 1)
		got := a.h.events[0]
		require.Equal(t, start, got.ReceivedAt.Round(0))
		require.Equal(t, 1, got.Attempt)
		got.ReceivedAt, got.Attempt = time.Time{}, 0
		require.Equal(t, event, got)
		d := a.seen.last(t)
		require.Equal(t, inbox.Processed, d.Status)
		require.True(t, d.Queued)
		require.Equal(t, event.ID, d.ID)

		r = a.accept(t, event, inbox.Replayed)
		require.Equal(t, start, r.ReceivedAt.Round(0))
		require.False(t, r.PayloadMismatch)
		a.work(t, time.Minute)
		require.Len(t, a.h.events, 1)
	})
}

// The queue forgets an event after a day. The inbox remembers it for four.
func TestAnAcceptedEventIsRememberedByTheInboxAfterTheQueueHasForgottenIt(t *testing.T) {
	accepting(t, func(t *testing.T, a *acceptance) {
		a.accept(t, event, inbox.Accepted)
		a.work(t, second)
		time.Sleep(inbox.DefaultRetention / 2)
		n, err := a.queue.Purge(t.Context(), time.Hour, 10)
		require.NoError(t, err)
		require.Equal(t, 1, n)
		a.accept(t, event, inbox.Accepted)
		a.work(t, second)
		require.Len(t, a.h.events, 1)
		stats, err := a.queue.Stats(t.Context())
		require.NoError(t, err)
		require.Zero(t, stats)

		time.Sleep(inbox.DefaultRetention)
		r := a.accept(t, event, inbox.Replayed)
		require.Zero(t, r.ReceivedAt, "the inbox has forgotten it, and the queue has not")
	})
}

func TestAnotherPayloadOfAnAcceptedEventIsAConflictUntilItIsSettled(t *testing.T) {
	other := event
	other.Payload = []byte("other")
	accepting(t, func(t *testing.T, a *acceptance) {
		a.h.errs = []error{inbox.Reject(errHandler)}
		a.accept(t, event, inbox.Accepted)
		_, err := a.Receive(t.Context(), other)
		refused(t, err, taxonomy.PayloadMismatch)

		a.work(t, second)
		r := a.accept(t, other, inbox.Replayed)
		require.True(t, r.PayloadMismatch, "it is a dead letter")
		require.True(t, r.Dead())
		require.False(t, a.accept(t, event, inbox.Replayed).PayloadMismatch)
		require.NoError(t, a.Redrive(t.Context(), event.Source, event.ID))
		_, err = a.Receive(t.Context(), other)
		refused(t, err, taxonomy.PayloadMismatch)

		a.work(t, second)
		a.seen.seen = nil
		require.True(t, a.accept(t, other, inbox.Replayed).PayloadMismatch)
		require.Equal(t, taxonomy.PayloadMismatch, a.seen.last(t).Code, "it is reported")
		require.False(t, a.accept(t, event, inbox.Replayed).PayloadMismatch)

		// The queue has forgotten the event. The inbox finds the other payload when it handles it.
		time.Sleep(time.Hour)
		_, err = a.queue.Purge(t.Context(), time.Minute, 10)
		require.NoError(t, err)
		a.accept(t, other, inbox.Accepted)
		a.work(t, second)
		require.Len(t, a.h.events, 2)
		for _, ev := range a.h.events {
			require.Equal(t, event.Payload, ev.Payload)
		}
		require.Empty(t, letters(t, a, ""))
	})
}

func TestAnEventThatTheQueueDidNotTakeIsNotAcknowledged(t *testing.T) {
	accepting(t, func(t *testing.T, a *acceptance) {
		down := &broken{Queue: a.queue, err: store.ErrUnavailable}
		in := newInbox(t, a.st)
		broken, err := inbox.Accept(down, in.Receiver(a.h.handle))
		require.NoError(t, err)
		_, err = broken.Receive(t.Context(), event)
		refused(t, err, taxonomy.Unavailable)
		_, err = broken.Receive(t.Context(), inbox.Event{Source: "s"})
		refused(t, err, taxonomy.BadRequest)
		unhashed, err := inbox.Accept(a.queue, newInbox(t, a.st, inbox.Fingerprint(
			func(inbox.Event) (store.Fingerprint, error) { return store.Fingerprint{}, errors.New("no payload") },
		)).Receiver(a.h.handle))
		require.NoError(t, err)
		_, err = unhashed.Receive(t.Context(), event)
		refused(t, err, taxonomy.BadRequest)
		require.ErrorContains(t, err, "no payload")
		h := broken.Handler(identify)
		require.Equal(t, response{503, "", "", "1", "DEPENDENCY.unavailable"}, deliver(t, h, "a", "p"))

		down.err, down.applied = store.ErrUnknown, true
		require.Equal(t, response{503, "", "", "1", "DEPENDENCY.unavailable"}, deliver(t, h, "a", "p"))
		require.Equal(t, response{202, "stored", "", "", ""}, deliver(t, h, "a", "p"), "the first write was made")
		require.Equal(t, response{409, "", "", "", "CONFLICT.idempotency.payload_mismatch"},
			deliver(t, h, "a", "other"))
		a.work(t, second)
		require.Equal(t, response{200, "replayed", "true", "", ""}, deliver(t, h, "a", "other"))
		require.Len(t, a.h.events, 1)
	})
}

// A broken queue fails each Append, after it was made if applied is set.
type broken struct {
	*memoutbox.Queue
	err     error
	applied bool
}

func (b *broken) Append(ctx context.Context, events ...outbox.Event) error {
	if !b.applied {
		return b.err
	}
	if err := b.Queue.Append(ctx, events...); err != nil {
		return err
	}
	return b.err
}

// A busy queue is slow to list its disabled sources.
type busy struct {
	*memoutbox.Queue
	listed bool
}

func (b *busy) Disabled(ctx context.Context) ([]outbox.DisabledDestination, error) {
	<-ctx.Done()
	time.Sleep(time.Hour)
	b.listed = true
	return nil, ctx.Err()
}

// The caller may close the queue when Run has returned.
func TestRunCallsNoQueueAfterItsEnd(t *testing.T) {
	accepting(t, func(t *testing.T, a *acceptance) {
		q := &busy{Queue: a.queue}
		var err error
		a.Acceptor, err = inbox.Accept(q, newInbox(t, a.st).Receiver(a.h.handle))
		require.NoError(t, err)
		a.work(t, time.Minute)
		require.True(t, q.listed)
	})
}

func TestAHandlersFailuresFollowTheQueuesSchedule(t *testing.T) {
	accepting(t, func(t *testing.T, a *acceptance) {
		start := time.Now().UTC().Round(0)
		a.h.errs = []error{errHandler, errHandler, errors.New("the last")}
		a.accept(t, event, inbox.Accepted)
		a.work(t, time.Minute)
		require.Len(t, a.h.events, 3)
		list := letters(t, a, "")
		require.Len(t, list, 1)
		require.Equal(t, list, letters(t, a, event.Source))
		require.Empty(t, letters(t, a, "orders"))
		got := list[0]
		require.Equal(t, "the last", got.Failure)
		require.Equal(t, 3, got.Attempts)
		require.Equal(t, event.Payload, got.Payload)
		require.Equal(t, event.ID, got.ID)
		require.Equal(t, event.Source, got.Source)
		require.Equal(t, start, got.ReceivedAt)
		require.False(t, got.FailedAt.Before(start.Add(2*second*8/10)), "two waits, each at most a fifth shorter")
		require.False(t, got.Unknown)
		in := newInbox(t, a.st)
		require.Empty(t, letters(t, in, ""), "one place for an operator to look")
		require.Empty(t, waiting(t, in, ""))

		time.Sleep(30 * 24 * time.Hour)
		require.NoError(t, a.Redrive(t.Context(), event.Source, event.ID))
		a.work(t, second)
		require.Len(t, a.h.events, 4)
		require.Equal(t, 4, a.h.events[3].Attempt)
		require.Empty(t, letters(t, a, ""))
		require.ErrorIs(t, a.Redrive(t.Context(), event.Source, event.ID), inbox.ErrNoLetter)
		require.ErrorIs(t, a.Drop(t.Context(), event.Source, event.ID), inbox.ErrNoLetter)
	})
}

// A relay disables a destination to which nothing was delivered for a whole schedule. An inbox must not.
func TestAnEventThatFailsStopsNoOtherOfItsSource(t *testing.T) {
	accepting(t, func(t *testing.T, a *acceptance) {
		a.h.errs = []error{errHandler, errHandler, errHandler}
		a.accept(t, event, inbox.Accepted)
		a.work(t, time.Minute)
		require.Len(t, letters(t, a, ""), 1)
		other := event
		other.ID = "ev_002"
		a.accept(t, other, inbox.Accepted)
		a.work(t, second)
		require.Len(t, a.h.events, 4)

		// A process has died in the meantime, or an operator was mistaken.
		require.NoError(t, a.queue.Disable(t.Context(), event.Source, outbox.Failure{Reason: "down"}))
		other.ID = "ev_003"
		a.accept(t, other, inbox.Accepted)
		a.work(t, second)
		require.Len(t, a.h.events, 5)
		disabled, err := a.queue.Disabled(t.Context())
		require.NoError(t, err)
		require.Empty(t, disabled)
	})
}

// The handler's timeout is the relay's, however the relay is configured.
func TestAnAcceptedEventsHandlerHasTheInboxsTimeout(t *testing.T) {
	bubble(t, func(t *testing.T, st *memstore.Store) {
		a := &acceptance{queue: memoutbox.New(), st: st}
		in := newInbox(t, st, inbox.HandlerTimeout(40*second))
		var elapsed []time.Duration
		var err error
		a.Acceptor, err = inbox.Accept(a.queue, in.Receiver(func(ctx context.Context, _ inbox.Event) error {
			start := time.Now()
			<-ctx.Done()
			elapsed = append(elapsed, time.Since(start))
			return ctx.Err()
		}), outbox.Retry(), outbox.AttemptTimeout(time.Second))
		require.NoError(t, err)
		a.accept(t, event, inbox.Accepted)
		a.work(t, time.Minute)
		require.Equal(t, []time.Duration{40 * second}, elapsed)
		require.Contains(t, letters(t, a, "")[0].Failure, context.DeadlineExceeded.Error())
	})
}

func TestADroppedLetterOfTheQueueIsNotHandledAgain(t *testing.T) {
	accepting(t, func(t *testing.T, a *acceptance) {
		a.h.errs = []error{inbox.Reject(errHandler)}
		a.accept(t, event, inbox.Accepted)
		a.work(t, second)
		require.Equal(t, 1, letters(t, a, "")[0].Attempts, "a rejected event has no second attempt")
		require.NoError(t, a.Drop(t.Context(), event.Source, event.ID))
		require.Empty(t, letters(t, a, ""))
		a.accept(t, event, inbox.Accepted)
		a.work(t, second)
		require.Len(t, a.h.events, 1)
		require.True(t, a.accept(t, event, inbox.Replayed).Dead())
	})
}

// A receipt with a failure is a dead letter's, and another program may have buried the event without a reason.
func TestADroppedLetterWithoutAReasonIsDead(t *testing.T) {
	accepting(t, func(t *testing.T, a *acceptance) {
		a.accept(t, event, inbox.Accepted)
		claimed, err := a.queue.Claim(t.Context(), outbox.Claim{Max: 1, Lease: second})
		require.NoError(t, err)
		_, err = a.queue.Settle(t.Context(), outbox.Settlement{
			Lease: claimed[0].Lease, Outcome: outbox.Outcome{Result: outbox.Dead},
		})
		require.NoError(t, err)
		require.NoError(t, a.Drop(t.Context(), event.Source, event.ID))
		a.accept(t, event, inbox.Accepted)
		a.work(t, second)
		require.Empty(t, a.h.events)
		require.Equal(t, "the attempt did not end", a.accept(t, event, inbox.Replayed).Failure)
	})
}

// A process that is asked to end gives the event back. The attempt is not counted by the schedule.
func TestAnInterruptedHandlerCostsNoAttemptOfTheSchedule(t *testing.T) {
	bubble(t, func(t *testing.T, st *memstore.Store) {
		a := &acceptance{queue: memoutbox.New(), st: st}
		in := newInbox(t, st)
		handled := 0
		var err error
		a.Acceptor, err = inbox.Accept(a.queue, in.Receiver(func(ctx context.Context, ev inbox.Event) error {
			if handled++; handled <= 5 {
				<-ctx.Done()
				return ctx.Err()
			}
			return nil
		}), quick, outbox.Drain(0))
		require.NoError(t, err)
		a.accept(t, event, inbox.Accepted)
		for range 6 {
			a.work(t, second)
		}
		require.Equal(t, 6, handled)
		require.Empty(t, letters(t, a, ""))
	})
}

func TestAHandlerThatEndsItsTransactionMakesADeadLetterOfTheQueue(t *testing.T) {
	rigged(t, func(t *testing.T, r *rig) {
		a := &acceptance{queue: memoutbox.New()}
		var err error
		a.Acceptor, err = inbox.Accept(a.queue, r.live.Receiver(r.ends(returns(nil))), quick)
		require.NoError(t, err)
		a.accept(t, event, inbox.Accepted)
		for range 3 {
			a.work(t, time.Minute)
			require.Equal(t, credited, r.rows)
			list := letters(t, a, "")
			require.Len(t, list, 1)
			require.True(t, list[0].Unknown)
			require.Equal(t, 1, list[0].Attempts)
			require.Equal(t, event.Payload, list[0].Payload)
			require.Empty(t, letters(t, r.live, ""))
			time.Sleep(365 * 24 * time.Hour)
			require.NoError(t, a.Redrive(t.Context(), event.Source, event.ID))
		}
	}, inbox.LetterRetention(inbox.DefaultRetention)) // the queue's letters are kept for longer
}

func TestTheQueuesScheduleIsThatOfATransactionalInboxToo(t *testing.T) {
	rigged(t, func(t *testing.T, r *rig) {
		a := &acceptance{queue: memoutbox.New()}
		failures := 2
		var err error
		a.Acceptor, err = inbox.Accept(a.queue,
			r.live.Receiver(func(ctx context.Context, tx rows, ev inbox.Event) error {
				if failures--; failures >= 0 {
					return credit(errHandler)(ctx, tx, ev)
				}
				return credit(nil)(ctx, tx, ev)
			}), quick)
		require.NoError(t, err)
		a.accept(t, event, inbox.Accepted)
		a.work(t, 10*second)
		require.Equal(t, credited, r.rows)
		require.Empty(t, letters(t, a, ""))
		require.Equal(t, 3, a.accept(t, event, inbox.Replayed).Attempts)
	}, inbox.MaxAttempts(1))
}

func TestAcceptRefusesWhatItCannotUse(t *testing.T) {
	st := memstore.New()
	t.Cleanup(func() { require.NoError(t, st.Close()) })
	r := newInbox(t, st).Receiver(func(context.Context, inbox.Event) error { return nil })
	_, err := inbox.Accept(nil, r)
	require.EqualError(t, err, "inbox: the queue is nil")
	_, err = inbox.Accept(memoutbox.New(), inbox.Receiver{})
	require.EqualError(t, err, "inbox: the receiver is zero")
	tx, err := inbox.NewTransactional(newEngine(st))
	require.NoError(t, err)
	for _, without := range []inbox.Receiver{newInbox(t, st).Receiver(nil), tx.Receiver(nil)} {
		_, err = inbox.Accept(memoutbox.New(), without)
		require.EqualError(t, err, "inbox: the receiver's handler is nil")
	}
	_, err = inbox.Accept(memoutbox.New(), r, outbox.Workers(0))
	require.ErrorContains(t, err, "Workers")
}

func TestAReceiverHandlesAtOnce(t *testing.T) {
	transactional(t, func(t *testing.T, e *engine, in *inbox.Transactional[rows]) {
		r, err := in.Receiver(credit(nil)).Receive(t.Context(), event)
		require.NoError(t, err)
		require.Equal(t, inbox.Processed, r.Status)
		require.Equal(t, credited, e.rows)
	})
}

var _ interface {
	DeadLetters(context.Context, string) iter.Seq2[inbox.FailedEvent, error]
	Handler(inbox.Identify) http.Handler
} = (*inbox.Acceptor)(nil)
