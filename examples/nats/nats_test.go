package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/outbox"
	"github.com/redo-go/redo/taxonomy"
)

// connect returns a connection to the server of REDO_TEST_NATS, or to one at the default address if it is up. Where
// REDO_TEST_NATS is set and REDO_TEST_REQUIRE=1 a test that has none fails.
func connect(t *testing.T) (*nats.Conn, jetstream.JetStream) {
	t.Helper()
	url, required := os.Getenv("REDO_TEST_NATS"), os.Getenv("REDO_TEST_REQUIRE") == "1"
	asked := url != ""
	if !asked {
		url = nats.DefaultURL
	}
	conn, err := nats.Connect(url, nats.Timeout(2*time.Second))
	if err == nil {
		t.Cleanup(conn.Close)
		var js jetstream.JetStream
		if js, err = jetstream.New(conn); err == nil {
			if _, err = js.AccountInfo(t.Context()); err == nil {
				return conn, js
			}
		}
	}
	if asked && required {
		t.Fatalf("REDO_TEST_REQUIRE is set: no NATS with JetStream at %s: %v", url, err)
	}
	t.Skipf("needs NATS with JetStream, by REDO_TEST_NATS or at %s: %v", url, err)
	return nil, nil
}

// newStream makes a stream of the test's own.
func newStream(t *testing.T, js jetstream.JetStream, cfg jetstream.StreamConfig) (jetstream.Stream, string) {
	t.Helper()
	cfg.Name = fmt.Sprintf("redo-test-%d-%d", os.Getpid(), time.Now().UnixNano())
	cfg.Subjects, cfg.Storage = []string{cfg.Name + ".>"}, jetstream.MemoryStorage
	stream, err := js.CreateStream(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, js.DeleteStream(context.Background(), cfg.Name)) })
	return stream, cfg.Name
}

func TestStoryEnds(t *testing.T) {
	conn, _ := connect(t)
	var out bytes.Buffer
	require.NoError(t, show(t.Context(), &out, conn))
	require.Contains(t, out.String(), "3 events were delivered 4 times, the stream holds 3 messages")
}

func TestMessageIDIsTheEventsID(t *testing.T) {
	_, js := connect(t)
	stream, name := newStream(t, js, jetstream.StreamConfig{})
	ev := outbox.Event{ID: "k", Destination: name + ".a", Header: map[string][]string{"X-A": {"1", "2"}}, Payload: []byte("body")}
	for range 2 {
		require.NoError(t, publisher{js}.Publish(t.Context(), ev))
	}
	info, err := stream.Info(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 1, info.State.Msgs, "an event that is published again is one message")
	msg, err := stream.GetMsg(t.Context(), 1)
	require.NoError(t, err)
	require.Equal(t, "k", msg.Header.Get(nats.MsgIdHdr))
	require.Equal(t, []string{"1", "2"}, msg.Header["X-A"])
	require.Equal(t, "body", string(msg.Data))
	require.NotContains(t, ev.Header, nats.MsgIdHdr, "the event itself is not changed")
}

func TestRefusals(t *testing.T) {
	_, js := connect(t)
	_, name := newStream(t, js, jetstream.StreamConfig{MaxMsgSize: 1000})
	for rule, c := range map[string]struct {
		ev   outbox.Event
		code taxonomy.Code // empty: it is rejected
	}{
		"no subject":                        {ev: outbox.Event{ID: "k"}},
		"a message too long for the stream": {ev: outbox.Event{ID: "k", Destination: name + ".a", Payload: make([]byte, 2000)}},
		"a subject of no stream passes":     {ev: outbox.Event{ID: "k", Destination: "redo-test-none.a"}, code: taxonomy.Unavailable},
	} {
		t.Run(rule, func(t *testing.T) {
			err := publisher{js}.Publish(t.Context(), c.ev)
			require.Error(t, err)
			var code taxonomy.Code
			errors.As(err, &code)
			require.Equal(t, c.code, code)
		})
	}
}
