package outboxtest

import (
	"bytes"
	"context"
	"net/http"
	"reflect"
	"strings"
	"sync/atomic"

	"github.com/redo-go/redo/outbox"
	"github.com/redo-go/redo/store"
)

var enqueueCases = []Case{
	{
		Name: "event is claimed as it was enqueued",
		Rule: "the delivery equals the enqueued event, byte by byte: the signature and the consumer's " +
			"fingerprint are over it",
		run: func(t *trial) {
			q := t.open()
			payload := make([]byte, 70_000)
			for i := range payload {
				payload[i] = byte(i)
			}
			want := outbox.Event{
				ID: `a"b'c\d:e/f~1`, Type: "refund.created", Destination: "https://shop.example/hooks?a=ü",
				OrderingKey: "re_1 'ü\\",
				Header:      http.Header{"Content-Type": {"application/json"}, "X-Many": {"a", "", "c\\"}},
				Payload:     payload,
			}
			t.enqueue(q, want)
			got := t.one(q, long, want.ID, 1).Event
			if !bytes.Equal(got.Payload, want.Payload) {
				t.fatalf("the payload changed: %d bytes became %d", len(want.Payload), len(got.Payload))
			}
			got.Payload = want.Payload
			if !reflect.DeepEqual(got, want) {
				t.fatalf("the event %+v became %+v", withoutPayload(want), withoutPayload(got))
			}
		},
	},
	{
		Name: "event belongs to the queue",
		Rule: "a caller that changes an event after it enqueued, listed or claimed it changes nothing in the queue",
		run: func(t *trial) {
			q := t.open()
			ev := outbox.Event{ID: "k", Header: http.Header{"X-A": {"a"}}, Payload: []byte("body")}
			spoiled := func(ev outbox.Event) {
				if string(ev.Payload) != "body" || ev.Header.Get("X-A") != "a" {
					t.fatalf("the event has the header %v and the payload %q", ev.Header, ev.Payload)
				}
				ev.Header["X-A"][0], ev.Payload[0] = "b", 'B'
			}
			t.enqueue(q, ev)
			spoiled(ev)
			for range 2 {
				spoiled(t.events(q, outbox.Selection{}, "k")[0].Event)
				d := t.one(q, long, "k", 1)
				spoiled(d.Event)
				t.settle(q, d, released)
			}
		},
	},
	{
		Name: "event may be empty but for its id",
		Rule: "no part but the id is needed, and no header and no payload come back as none",
		run: func(t *trial) {
			q := t.open()
			t.enqueue(q, outbox.Event{ID: "k"})
			got := t.one(q, long, "k", 1).Event
			if len(got.Header) != 0 || len(got.Payload) != 0 || got.Type != "" || got.Destination != "" ||
				got.OrderingKey != "" {
				t.fatalf("an empty event became %+v", got)
			}
		},
	},
	{
		Name: "event without an id gets one",
		Rule: "an id that Enqueue makes is a UUIDv7, returned to the caller and delivered",
		run: func(t *trial) {
			q := t.open()
			tx := t.begin(q)
			id := t.write(tx, outbox.Event{})
			t.ok(tx.Commit(t.Context()), "Commit")
			if len(id) != 36 || id[14] != '7' {
				t.fatalf("the id %q is no UUIDv7", id)
			}
			t.one(q, long, id, 1)
		},
	},
	{
		Name: "event exists only with its transaction",
		Rule: "an event is not seen before its transaction is committed, and never when it is rolled back",
		run: func(t *trial) {
			q := t.open()
			tx := t.begin(q)
			t.write(tx, event("k", ""))
			t.claim(q, long)
			t.stats(q, 0, 0)
			t.ok(tx.Rollback(t.Context()), "Rollback")
			t.claim(q, long)
			t.enqueue(q, event("k", "")) // the id is free
			t.one(q, long, "k", 1)
		},
	},
	{
		Name: "id is taken until its event is gone",
		Rule: "a second event with an id that the queue holds is refused, and the caller's transaction can go on",
		run: func(t *trial) {
			q := t.open()
			t.enqueue(q, event("waits", ""), event("sent", ""))
			ds := t.claim(q, long, "waits", "sent")
			t.settle(q, ds[1], sent)
			tx := t.begin(q)
			t.write(tx, event("here", ""))
			for _, id := range []string{"waits", "sent", "here"} {
				_, err := tx.Enqueue(t.Context(), event(id, ""))
				t.is(err, outbox.ErrDuplicate, "Enqueue of a taken id")
			}
			t.write(tx, event("after", ""))
			t.ok(tx.Commit(t.Context()), "Commit")
			t.claim(q, long, "here", "after")
		},
	},
	{
		Name: "event that breaks a rule is refused",
		Rule: "an event that can't be delivered is refused where it is made, and the caller's transaction can go on",
		run: func(t *trial) {
			q := t.open()
			tx := t.begin(q)
			for _, ev := range []outbox.Event{
				{ID: "a b"},
				{ID: strings.Repeat("k", outbox.MaxID+1)},
				{OrderingKey: "a\x00b"},
				{Header: http.Header{"Idempotency-Key": {"k"}}},
				{Payload: make([]byte, outbox.MaxPayload+1)},
			} {
				_, err := tx.Enqueue(t.Context(), ev)
				t.is(err, store.ErrInvalid, "Enqueue of an invalid event")
			}
			t.write(tx, event("k", ""))
			t.ok(tx.Commit(t.Context()), "Commit")
			t.one(q, long, "k", 1)
		},
	},
	{
		Name: "late commit is not skipped",
		Rule: "an event that was enqueued before another and is committed after it is delivered when it appears",
		run: func(t *trial) {
			if t.h.SingleWriter {
				t.Skipf("the engine has one write transaction at a time")
			}
			q := t.open()
			late, early := t.begin(q), t.begin(q)
			t.write(late, event("late", ""))
			t.write(early, event("early", ""))
			t.ok(early.Commit(t.Context()), "Commit")
			t.settle(q, t.one(q, long, "early", 1), sent)
			t.ok(late.Commit(t.Context()), "Commit")
			t.one(q, long, "late", 1)
		},
	},
	{
		Name: "ended context changes nothing",
		Rule: "a call whose context has ended before is refused with the context's error",
		run: func(t *trial) {
			q := t.open()
			t.enqueue(q, event("k", ""))
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			_, err := q.Claim(ctx, outbox.Claim{Max: 1, Lease: long})
			t.is(err, context.Canceled, "Claim")
			d := t.one(q, long, "k", 1)
			_, err = q.Settle(ctx, outbox.Settlement{Lease: d.Lease, Outcome: sent})
			t.is(err, context.Canceled, "Settle")
			_, err = q.Extend(ctx, long, d.Lease)
			t.is(err, context.Canceled, "Extend")
			t.is(q.Append(ctx, event("other", "")), context.Canceled, "Append")
			t.is(q.Disable(ctx, "", died.Failure), context.Canceled, "Disable")
			t.is(q.Enable(ctx, ""), context.Canceled, "Enable")
			_, err = q.Disabled(ctx)
			t.is(err, context.Canceled, "Disabled")
			_, err = q.Stats(ctx)
			t.is(err, context.Canceled, "Stats")
			for _, err = range q.Events(ctx, outbox.Selection{}) {
				break
			}
			t.is(err, context.Canceled, "Events")
			t.is(q.Redrive(ctx, "k", ""), context.Canceled, "Redrive")
			t.is(q.Drop(ctx, "k", ""), context.Canceled, "Drop")
			_, err = q.Purge(ctx, long, 1)
			t.is(err, context.Canceled, "Purge")
			tx := t.begin(q)
			_, err = tx.Enqueue(ctx, event("other", ""))
			t.is(err, context.Canceled, "Enqueue")
			_, err = tx.EnqueueBatch(ctx, []outbox.Event{event("other", "")})
			t.is(err, context.Canceled, "EnqueueBatch")
			t.ok(tx.Commit(t.Context()), "Commit")
			t.stats(q, 1, 0)
			t.settle(q, d, sent)
		},
	},
	{
		Name: "watcher is woken by a commit",
		Rule: "a relay that watches need not poll for events that become due by Enqueue, Settle, Redrive or Enable",
		run: func(t *trial) {
			q := t.open()
			w, ok := q.(outbox.Watcher)
			if !ok {
				t.Skipf("the queue is no outbox.Watcher")
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var calls atomic.Int64
			ended := make(chan error, 1)
			go func() { ended <- w.Watch(ctx, func() { calls.Add(1) }) }()
			t.until("Watch has called wake to say that it listens", func() bool { return calls.Load() > 0 })
			wakes := func(what string, change func()) {
				before := calls.Load()
				change()
				t.until("Watch has called wake for "+what, func() bool { return calls.Load() > before })
			}
			wakes("a new event", func() { t.enqueue(q, event("k", "")) })
			wakes("a released event", func() { t.settle(q, t.one(q, long, "k", 1), released) })
			t.settle(q, t.one(q, long, "k", 1), died)
			wakes("a redriven event", func() { t.ok(q.Redrive(t.Context(), "k", ""), "Redrive") })
			t.ok(q.Disable(t.Context(), "", died.Failure), "Disable")
			wakes("an enabled destination", func() { t.ok(q.Enable(t.Context(), ""), "Enable") })
			cancel()
			var err error
			t.until("Watch has returned after its context ended", func() bool {
				select {
				case err = <-ended:
					return true
				default:
					return false
				}
			})
			t.ok(err, "Watch")
		},
	},
}

func withoutPayload(ev outbox.Event) outbox.Event {
	ev.Payload = nil
	return ev
}
