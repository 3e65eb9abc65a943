package otelredo_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/metric"

	"github.com/redo-go/redo/inbox"
	"github.com/redo-go/redo/otelredo"
	"github.com/redo-go/redo/outbox"
	"github.com/redo-go/redo/outbox/memoutbox"
	"github.com/redo-go/redo/store/memstore"
)

// events has a relay deliver two events to an inbox: the first is handled, the second is refused. A destination is
// disabled, and one more event waits for it.
func events(t *testing.T, r *receiver) metric.Registration {
	t.Helper()
	queue := memoutbox.New()
	require.NoError(t, queue.Append(t.Context(),
		outbox.Event{
			ID: "ev_1", Type: "refund.created", Destination: "https://shop.test/hunter2", Payload: []byte("hunter2"),
		},
		outbox.Event{
			ID: "ev_2", Type: "refund.created", Destination: "https://shop.test/hunter2", Payload: []byte("hunter2"),
		},
		outbox.Event{ID: "ev_3", Destination: "https://gone.test"},
	))
	require.NoError(t, queue.Disable(t.Context(), "https://gone.test", outbox.Failure{Status: 410}))
	in, err := inbox.New(memstore.New(), inbox.Observe(otelredo.Inbox(r.options()...)))
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	ended := 0
	publish := outbox.PublisherFunc(func(ctx context.Context, ev outbox.Event) error {
		_, err := in.Receive(ctx, inbox.Event{Source: "bank", ID: ev.ID, Payload: ev.Payload},
			func(context.Context, inbox.Event) error {
				if ev.ID == "ev_2" {
					return errors.New("not today")
				}
				return nil
			})
		if ended++; ended == 2 {
			cancel()
		}
		return err
	})
	relay, err := outbox.NewRelay(queue, publish, outbox.Workers(1), outbox.Observe(otelredo.Outbox(r.options()...)))
	require.NoError(t, err)
	require.NoError(t, relay.Run(ctx))
	registration, err := otelredo.ObserveBacklog(queue, r.options()...)
	require.NoError(t, err)
	return registration
}
