package broker_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/broker"
	"github.com/redo-go/redo/inbox"
	"github.com/redo-go/redo/outbox"
	"github.com/redo-go/redo/store/memstore"
	"github.com/redo-go/redo/taxonomy"
)

// receive gives the event to a new inbox whose handler returns failure.
func receive(t *testing.T, ev inbox.Event, failure error) error {
	t.Helper()
	events, err := inbox.New(memstore.New(), inbox.Backoff(func(int) time.Duration { return 3 * time.Second }))
	require.NoError(t, err)
	_, err = events.Receive(t.Context(), ev, func(context.Context, inbox.Event) error { return failure })
	return err
}

func TestWait(t *testing.T) {
	for rule, c := range map[string]struct {
		err     error
		wait    time.Duration
		refused bool
	}{
		"the inbox's own time": {
			err: receive(t, inbox.Event{Source: "s", ID: "1"}, errors.New("closed")), wait: 3 * time.Second,
		},
		"a wrapped error of the inbox": {
			err:  fmt.Errorf("receive: %w", receive(t, inbox.Event{Source: "s", ID: "1"}, errors.New("closed"))),
			wait: 3 * time.Second,
		},
		"an event without an id is refused": {
			err: receive(t, inbox.Event{Source: "s"}, nil), wait: 10 * time.Minute, refused: true,
		},
		"an event that is too large is refused": {
			err:  receive(t, inbox.Event{Source: "s", ID: "1", Payload: make([]byte, inbox.MaxPayload+1)}, nil),
			wait: 10 * time.Minute, refused: true,
		},
		"an unreachable store is no refusal": {err: &inbox.Error{Code: taxonomy.Unavailable}, wait: time.Second},
		"an unknown error":                   {err: errors.New("unknown"), wait: time.Second},
	} {
		t.Run(rule, func(t *testing.T) {
			require.Error(t, c.err)
			require.Equal(t, c.wait, broker.Wait(c.err))
			require.Equal(t, c.refused, broker.Refused(c.err))
		})
	}
}

func TestHeader(t *testing.T) {
	own := http.Header{"X-A": {"1", "2"}, broker.HeaderType: {"of the header"}}
	typed := outbox.Event{ID: "1", Type: "refund.created", Header: own}
	want := http.Header{"X-A": {"1", "2"}, "Idempotency-Key": {"1"}, "Event-Type": {"refund.created"}}
	require.Equal(t, want, broker.Header(typed))
	want.Del(broker.HeaderType)
	require.Equal(t, want, broker.Header(outbox.Event{ID: "1", Header: own}))
	require.Equal(t, http.Header{"Idempotency-Key": {"1"}}, broker.Header(outbox.Event{ID: "1"}))
	require.Equal(t, http.Header{"X-A": {"1", "2"}, broker.HeaderType: {"of the header"}}, own, "it is the caller's")
}
