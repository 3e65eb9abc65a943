package brokertest

import (
	"context"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/outbox"
	"github.com/redo-go/redo/outbox/boltoutbox"
	"github.com/redo-go/redo/store/boltstore"
)

var publishing = []testCase{
	{rule: "an event arrives with id, type, header, ordering key and payload", run: func(t *testing.T, b *Broker) {
		ev := b.event("refund:re_1")
		ev.Header = http.Header{"Content-Type": {"application/json"}, "X-Part": {"one", "two"}}
		before := ev.Header.Clone()
		require.NoError(t, b.Publisher.Publish(t.Context(), ev))
		require.Equal(t, before, ev.Header, "it is the caller's")

		stored := b.Stored(t)
		require.Len(t, stored, 1)
		want := Message{
			ID: ev.ID, Type: ev.Type, OrderingKey: ev.OrderingKey, Header: ev.Header, Payload: string(ev.Payload),
			Dedup: stored[0].Dedup,
		}
		if b.Keyless {
			want.OrderingKey = ""
		}
		if b.Joins {
			want.Header = http.Header{"Content-Type": {"application/json"}, "X-Part": {"one, two"}}
		}
		require.Equal(t, want, stored[0])
		if b.Deduplicates {
			require.Equal(t, ev.ID, stored[0].Dedup)
		}
	}},
	{rule: "an event needs no type, header, ordering key or text", run: func(t *testing.T, b *Broker) {
		ev := outbox.Event{ID: "1", Destination: b.Destination, Payload: []byte{0, 0xff, 1}}
		require.NoError(t, b.Publisher.Publish(t.Context(), ev))
		stored := b.Stored(t)
		require.Len(t, stored, 1)
		require.Equal(t, Message{ID: "1", Dedup: stored[0].Dedup, Header: http.Header{}, Payload: "\x00\xff\x01"},
			stored[0])
	}},
	{rule: "an id that is published again is a success", run: func(t *testing.T, b *Broker) {
		ids := []string{"refund:re_1", "refund:re_1", "refund:re_2", strings.Repeat("x", 255), strings.Repeat("x", 255)}
		for _, id := range ids {
			require.NoError(t, b.Publisher.Publish(t.Context(), b.event(id)))
		}
		var stored []string
		for _, m := range b.Stored(t) {
			stored = append(stored, m.ID)
		}
		if b.Deduplicates {
			ids = []string{ids[0], ids[2], ids[3]}
		}
		require.ElementsMatch(t, ids, stored)
	}},
	{rule: "a good event is sent, a bad one is dead after one attempt", run: func(t *testing.T, b *Broker) {
		require.Equal(t, outbox.Sent, Attempt(t, b.Publisher, b.event("1")).Result)
		require.NotEmpty(t, b.Terminal)
		for rule, ev := range b.Terminal {
			a := Attempt(t, b.Publisher, ev)
			require.Equal(t, outbox.Dead, a.Result, "%s: %v", rule, a.Err)
		}
	}},
	{rule: "a fault of the configuration is retried", run: func(t *testing.T, b *Broker) {
		require.NotEmpty(t, b.Transient)
		for rule, ev := range b.Transient {
			a := Attempt(t, b.Publisher, ev)
			require.Equal(t, outbox.Waiting, a.Result, "%s: %v", rule, a.Err)
		}
	}},
	{rule: "a broker that is down is retried", run: func(t *testing.T, b *Broker) {
		require.Equal(t, outbox.Sent, Attempt(t, b.Publisher, b.event("1")).Result)
		b.Stop(t)
		a := Attempt(t, b.Publisher, b.event("2"))
		want := outbox.Waiting
		if b.NeverSent {
			want = outbox.Released // the attempt is not counted
			if a.Result == outbox.Waiting {
				// The one before was written to a connection that had just died.
				a = Attempt(t, b.Publisher, b.event("3"))
			}
		}
		require.Equal(t, want, a.Result, "%v", a.Err)
		require.Error(t, a.Err)
	}},
	{rule: "a context that has ended ends Publish", run: func(t *testing.T, b *Broker) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		require.ErrorIs(t, b.Publisher.Publish(ctx, b.event("1")), context.Canceled)
	}},
}

// event returns an event for the broker's destination.
func (b *Broker) event(id string) outbox.Event {
	return outbox.Event{
		ID: id, Type: "refund.created", Destination: b.Destination, OrderingKey: "re_1",
		Payload: []byte(`{"refund":"` + id + `"}`),
	}
}

// Attempt has a relay make one attempt at the event, and returns it.
func Attempt(t *testing.T, p outbox.Publisher, ev outbox.Event) outbox.Attempt {
	t.Helper()
	st, err := boltstore.Open(filepath.Join(t.TempDir(), "outbox.redo"))
	require.NoError(t, err)
	defer func() { require.NoError(t, st.Close()) }()
	queue, err := boltoutbox.New(t.Context(), st)
	require.NoError(t, err)
	require.NoError(t, st.Update(t.Context(), func(tx *boltstore.Tx) error {
		_, err := queue.Enqueue(t.Context(), tx, ev)
		return err
	}))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	seen := &first{cancel: cancel}
	relay, err := outbox.NewRelay(queue, p, outbox.Observe(seen), outbox.Retry(time.Hour),
		outbox.AttemptTimeout(2*time.Second))
	require.NoError(t, err)
	require.NoError(t, relay.Run(ctx))
	return seen.Attempt
}

// first keeps the first attempt, and ends the relay then.
type first struct {
	outbox.Attempt
	cancel context.CancelFunc
}

// ObserveAttempt implements outbox.Observer.
func (f *first) ObserveAttempt(_ context.Context, a outbox.Attempt) {
	f.Attempt = a
	f.cancel()
}

// ObserveQueue implements outbox.Observer.
func (f *first) ObserveQueue(context.Context, outbox.QueueCall) {}
