package inbox_test

import (
	"context"
	"errors"
	"iter"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/inbox"
	"github.com/redo-go/redo/outbox"
	"github.com/redo-go/redo/outbox/memoutbox"
	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/memstore"
	"github.com/redo-go/redo/taxonomy"
)

// A dark queue fails each call but Append and those of the relay, until a time.
type dark struct {
	*memoutbox.Queue
	until time.Time
}

func (d *dark) Events(ctx context.Context, s outbox.Selection) iter.Seq2[outbox.Entry, error] {
	if err := until(d.until); err != nil {
		return func(yield func(outbox.Entry, error) bool) {
			if yield(outbox.Entry{Event: outbox.Event{ID: "damaged", Destination: event.Source}}, store.ErrDamaged) {
				yield(outbox.Entry{}, err)
			}
		}
	}
	return d.Queue.Events(ctx, s)
}

func (d *dark) Redrive(ctx context.Context, id, destination string) error {
	if err := until(d.until); err != nil {
		return err
	}
	return d.Queue.Redrive(ctx, id, destination)
}

func (d *dark) Drop(ctx context.Context, id, destination string) error {
	if err := until(d.until); err != nil {
		return err
	}
	return d.Queue.Drop(ctx, id, destination)
}

func (d *dark) Disabled(ctx context.Context) ([]outbox.DisabledDestination, error) {
	if err := until(d.until); err != nil {
		return nil, err
	}
	return d.Queue.Disabled(ctx)
}

// in returns an acceptor with the same handler over the queue.
func (a *acceptance) in(t *testing.T, q inbox.Queue, st inbox.Store, opts ...inbox.Option) *inbox.Acceptor {
	t.Helper()
	other, err := inbox.Accept(q, newInbox(t, st, opts...).Receiver(a.h.handle), quick)
	require.NoError(t, err)
	return other
}

func TestAnOutageOfTheQueueHidesNoLetter(t *testing.T) {
	accepting(t, func(t *testing.T, a *acceptance) {
		a.h.errs = []error{inbox.Reject(errHandler)}
		a.accept(t, event, inbox.Accepted)
		a.work(t, second)
		down := a.in(t, &dark{a.queue, time.Now().Add(second)}, a.st)
		_, err := down.Receive(t.Context(), event)
		refused(t, err, taxonomy.Unavailable)
		refused(t, down.Drop(t.Context(), event.Source, event.ID), taxonomy.Unavailable)
		refused(t, down.Redrive(t.Context(), event.Source, event.ID), taxonomy.Unavailable)
		var ids []string
		var errs []error
		for l, err := range down.DeadLetters(t.Context(), "") {
			ids, errs = append(ids, l.ID), append(errs, err)
		}
		require.Equal(t, []string{"damaged", ""}, ids)
		refused(t, errs[0], inbox.Unreadable)
		refused(t, errs[1], taxonomy.Unavailable)
		for range down.DeadLetters(t.Context(), "") {
			break
		}
		time.Sleep(second)
		require.NoError(t, down.Redrive(t.Context(), event.Source, event.ID))
	})
}

// A process may have died after its relay had disabled a source, and the queue may be down when the next one starts.
func TestSourcesAreEnabledOnceTheQueueIsBack(t *testing.T) {
	accepting(t, func(t *testing.T, a *acceptance) {
		a.accept(t, event, inbox.Accepted)
		require.NoError(t, a.queue.Disable(t.Context(), event.Source, outbox.Failure{Reason: "gone"}))
		a.Acceptor = a.in(t, &dark{a.queue, time.Now().Add(10 * second)}, a.st)
		a.work(t, 9*second) // Run ends although the queue is down
		require.Empty(t, a.h.events)
		a.work(t, 9*second)
		require.Len(t, a.h.events, 1)
	})
}

// The queue has the event, and the inbox's store is down.
func TestAnOutageOfTheStoreAcknowledgesNoRepetition(t *testing.T) {
	accepting(t, func(t *testing.T, a *acceptance) {
		a.accept(t, event, inbox.Accepted)
		a.work(t, second)
		down := a.in(t, a.queue, &lossy{Store: a.st, blind: true, until: time.Now().Add(second)})
		_, err := down.Receive(t.Context(), event)
		refused(t, err, taxonomy.Unavailable)
		time.Sleep(second)
		r, err := down.Receive(t.Context(), event)
		require.NoError(t, err)
		require.Equal(t, inbox.Replayed, r.Status)
	})
}

// A letter is dropped only after its event is settled. Otherwise a further delivery would be handled.
func TestADropThatSettlesNothingKeepsTheLetter(t *testing.T) {
	accepting(t, func(t *testing.T, a *acceptance) {
		a.h.errs = []error{inbox.Reject(errHandler)}
		a.accept(t, event, inbox.Accepted)
		a.work(t, second)
		dropped := func(st inbox.Store) error {
			return a.in(t, a.queue, st).Drop(t.Context(), event.Source, event.ID)
		}
		time.Sleep(inbox.DefaultLeaseTTL)
		refused(t, dropped(mortal(a.st, 0)), taxonomy.Unavailable)
		refused(t, dropped(mortal(a.st, 1)), taxonomy.Unavailable)
		refused(t, dropped(a.st), taxonomy.InFlight)
		require.Len(t, letters(t, a, ""), 1)
		time.Sleep(inbox.DefaultLeaseTTL)
		require.NoError(t, dropped(a.st))
		require.Empty(t, letters(t, a, ""))
	})
}

// The payload can't be compared, so the event is not acknowledged.
func TestAnAcceptedEventWithoutAFingerprintIsUnreadable(t *testing.T) {
	accepting(t, func(t *testing.T, a *acceptance) {
		a.accept(t, event, inbox.Accepted)
		fails := false
		unhashed := a.in(t, a.queue, a.st, inbox.Fingerprint(func(inbox.Event) (store.Fingerprint, error) {
			if fails {
				return store.Fingerprint{}, errors.New("no payload")
			}
			fails = true
			return store.Raw("", "", "", event.Payload), nil
		}))
		r, err := unhashed.Receive(t.Context(), event)
		refused(t, err, inbox.Unreadable)
		require.Zero(t, r)
	})
}

// The queue lists no event that is being dropped or redriven, and the record is not settled.
func TestAnEventBetweenTheQueueAndTheInboxIsInFlight(t *testing.T) {
	accepting(t, func(t *testing.T, a *acceptance) {
		a.accept(t, event, inbox.Accepted)
		_, err := a.st.Reserve(t.Context(), store.Claim{ID: eventRecord, Lease: second, Retention: store.Forever})
		require.NoError(t, err)
		r, err := a.in(t, hidden{a.queue}, a.st).Receive(t.Context(), event)
		refused(t, err, taxonomy.InFlight)
		require.Zero(t, r)
	})
}

// A hidden queue lists nothing.
type hidden struct{ *memoutbox.Queue }

func (hidden) Events(context.Context, outbox.Selection) iter.Seq2[outbox.Entry, error] {
	return func(func(outbox.Entry, error) bool) {}
}

func TestAStoreWithoutAVerdictIsUnavailable(t *testing.T) {
	bubble(t, func(t *testing.T, st *memstore.Store) {
		_, err := newInbox(t, mute{st}).Receive(t.Context(), event, unused)
		refused(t, err, taxonomy.Unavailable)
		require.ErrorIs(t, err, store.ErrUnavailable)
	})
}

type mute struct{ *memstore.Store }

func (mute) Reserve(context.Context, store.Claim) (store.Grant, error) { return store.Grant{}, nil }

func TestASettledEventThatCannotBeReadIsNotAcknowledged(t *testing.T) {
	bubble(t, func(t *testing.T, st *memstore.Store) {
		g, err := st.Reserve(t.Context(), store.Claim{
			ID: eventRecord, Fingerprint: store.Raw("", "", "", event.Payload), Lease: second, Retention: time.Hour,
		})
		require.NoError(t, err)
		require.NoError(t, st.Complete(t.Context(), g.Lease, store.Outcome{Result: []byte{9}, Retention: time.Hour}))
		other := event
		other.Payload = []byte("other")
		for _, ev := range []inbox.Event{event, other} {
			r, err := newInbox(t, st).Receive(t.Context(), ev, unused)
			refused(t, err, inbox.Unreadable)
			require.Zero(t, r)
		}
	})
}

func TestALetterThatIsNotDroppedRemains(t *testing.T) {
	t.Run("a dead letter", func(t *testing.T) {
		bubble(t, func(t *testing.T, st *memstore.Store) {
			bury(t, newInbox(t, st))
			in := newInbox(t, mortal(st, 0))
			refused(t, in.Drop(t.Context(), event.Source, event.ID), taxonomy.Unavailable)
			require.Len(t, letters(t, in, ""), 1)
		})
	})
	t.Run("an unknown outcome", func(t *testing.T) {
		rigged(t, func(t *testing.T, r *rig) {
			r.makeUnknown(t)
			r.armed, r.left, r.writes = true, 0, 0
			refused(t, r.doomed.Drop(t.Context(), event.Source, event.ID), taxonomy.Unavailable)
			require.Len(t, letters(t, r.live, ""), 1)
		})
	})
}

// The rest of an event ends by a write.
func TestAWaitingEventIsNotRedrivenWithoutTheStore(t *testing.T) {
	bubble(t, func(t *testing.T, st *memstore.Store) {
		failOnce(t, newInbox(t, st))
		e := refused(t, redriven(t, newInbox(t, mortal(st, 0))), taxonomy.Unavailable)
		require.Equal(t, 1, e.Attempts)
		require.Len(t, waiting(t, newInbox(t, st), ""), 1)
	})
}

// A stalled queue responds to Events and to the first Disabled only when their context ends.
type stalled struct {
	*memoutbox.Queue
	asked atomic.Bool
}

func (*stalled) Events(ctx context.Context, _ outbox.Selection) iter.Seq2[outbox.Entry, error] {
	<-ctx.Done()
	return func(yield func(outbox.Entry, error) bool) { yield(outbox.Entry{}, ctx.Err()) }
}

func (s *stalled) Disabled(ctx context.Context) ([]outbox.DisabledDestination, error) {
	if !s.asked.Swap(true) {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return s.Queue.Disabled(ctx)
}

// net/http bounds no delivery.
func TestARepetitionDoesNotWaitForAStalledQueue(t *testing.T) {
	accepting(t, func(t *testing.T, a *acceptance) {
		a.accept(t, event, inbox.Accepted)
		ctx, done := context.WithTimeout(t.Context(), time.Hour)
		defer done()
		start := time.Now()
		_, err := a.in(t, &stalled{Queue: a.queue}, a.st).Receive(ctx, event)
		refused(t, err, taxonomy.Unavailable)
		require.Equal(t, inbox.DefaultStoreTimeout, time.Since(start))
	})
}

// Another process may have died after its relay had disabled a source. A relay may have lost the response to that.
func TestARunningProcessEnablesASource(t *testing.T) {
	for _, name := range []string{"the queue responds", "the queue does not respond at first"} {
		t.Run(name, func(t *testing.T) {
			accepting(t, func(t *testing.T, a *acceptance) {
				q := &stalled{Queue: a.queue}
				q.asked.Store(name == "the queue responds")
				a.Acceptor = a.in(t, q, a.st)
				time.AfterFunc(second, func() {
					_ = a.queue.Disable(context.Background(), event.Source, outbox.Failure{Reason: "gone"})
				})
				time.AfterFunc(2*second, func() { _, _ = a.Receive(context.Background(), event) })
				a.work(t, 70*second)
				require.Len(t, a.h.events, 1)
			})
		})
	}
}
