package outbox_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/outbox"
	"github.com/redo-go/redo/taxonomy"
)

// An attempt that sent nothing leaves no trace in the queue. Until its destination is disabled, only the log shows a
// host that can't be reached.
func TestAnAttemptThatSentNothingIsLoggedAsARetryIs(t *testing.T) {
	inBubble(t, func(g *rig) {
		var out bytes.Buffer
		var watch recorder
		g.enqueue(outbox.Event{ID: "k", Destination: "d"})
		stop := g.relay(g.queue, func(context.Context, outbox.Event) error {
			return outbox.NotSent(errors.Join(errors.New("no such host"), taxonomy.UnknownHost))
		}, outbox.Logger(slog.New(slog.NewJSONHandler(&out, nil))), outbox.Observe(&watch))
		time.Sleep(500 * time.Millisecond)
		synctest.Wait()
		stop()
		var line map[string]any
		require.NoError(g, json.Unmarshal(out.Bytes(), &line), "one line at the default level: %s", &out)
		require.Equal(g, "INFO", line["level"])
		require.Equal(g, "delivery failed and not counted, to be tried again", line["msg"])
		require.Equal(g, "k", line["idempotency_key"])
		require.Equal(g, string(taxonomy.UnknownHost), line["error_code"])
		require.Contains(g, line["error"], "no such host")
		require.Len(g, watch.attempts, 1)
		require.Equal(g, outbox.Released, watch.attempts[0].Result)
		require.Equal(g, taxonomy.UnknownHost, watch.attempts[0].Code)
	})
}
