package main

import (
	"bytes"
	"context"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/inbox"
	"github.com/redo-go/redo/outbox/boltoutbox"
	"github.com/redo-go/redo/store/boltstore"
)

// The queue of an inbox keeps an id with a space, or one that is long, as a hash.
func TestFindFindsAnAcceptedEventByTheProducersID(t *testing.T) {
	file := filepath.Join(t.TempDir(), "orders.redo")
	st, err := boltstore.Open(file)
	require.NoError(t, err)
	queue, err := boltoutbox.New(t.Context(), st, boltoutbox.WithBucket("redo-inbox"))
	require.NoError(t, err)
	in, err := inbox.New(st)
	require.NoError(t, err)
	accepted, err := inbox.Accept(queue, in.Receiver(func(context.Context, inbox.Event) error { return nil }))
	require.NoError(t, err)
	ids := []string{"plain", "order 1", strings.Repeat("long", 200), "inbox-sha256-of-the-producer"}
	for _, id := range ids {
		_, err := accepted.Receive(t.Context(), inbox.Event{Source: "bank", ID: id})
		require.NoError(t, err)
	}
	require.NoError(t, st.Close())
	for _, id := range ids {
		var out bytes.Buffer
		require.Zero(t, run(t.Context(), []string{"find", file, id}, terminal{out: &out, err: &out}), out.String())
		require.Regexp(t, `(?m)^inbox +(plain|inbox-sha256-[0-9a-f]{66}) +waiting .* bank$`, out.String())
		require.Equal(t, 2, strings.Count(out.String(), "\n"), out.String())
	}
	var out bytes.Buffer
	require.Equal(t, exitFailed, run(t.Context(), []string{"find", file, "order 2"}, terminal{out: &out, err: &out}))
	require.Contains(t, out.String(), `"order 2" is no operation`)
}
