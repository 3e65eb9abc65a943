package inbox_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/inbox"
	"github.com/redo-go/redo/outbox"
	"github.com/redo-go/redo/outbox/memoutbox"
	"github.com/redo-go/redo/store/memstore"
)

func TestAcceptedEventsOfAnOrderingKeyAreHandledInOrder(t *testing.T) {
	accepting(t, func(t *testing.T, a *acceptance) {
		a.h.errs = []error{errHandler}
		var want []string
		for _, id := range []string{"1", "2", "3"} {
			ev := inbox.Event{Source: "payments", ID: id, OrderingKey: "re_1", Payload: []byte(id)}
			a.accept(t, ev, inbox.Accepted)
			want = append(want, id)
		}
		a.work(t, time.Minute)
		var got []string
		for _, ev := range a.h.events[1:] {
			require.Equal(t, "re_1", ev.OrderingKey)
			got = append(got, ev.ID)
		}
		require.Equal(t, want, got)
	})
}

// A handler that hangs for one source delays no other source.
func TestASourceThatHangsDelaysNoOther(t *testing.T) {
	bubble(t, func(t *testing.T, st *memstore.Store) {
		a := &acceptance{queue: memoutbox.New(), st: st}
		in := newInbox(t, st)
		var healthy []time.Duration
		start := time.Now()
		var err error
		a.Acceptor, err = inbox.Accept(a.queue, in.Receiver(func(ctx context.Context, ev inbox.Event) error {
			if ev.Source == "hanging" {
				<-ctx.Done()
				return ctx.Err()
			}
			healthy = append(healthy, time.Since(start))
			return nil
		}), outbox.Workers(4), outbox.Drain(0))
		require.NoError(t, err)
		for i := range 100 {
			a.accept(t, inbox.Event{Source: "hanging", ID: string(rune('a' + i))}, inbox.Accepted)
		}
		a.accept(t, inbox.Event{Source: "healthy", ID: "1"}, inbox.Accepted)
		a.work(t, 10*second)
		require.Len(t, healthy, 1)
		require.LessOrEqual(t, healthy[0], 2*second)
	})
}
