package outbox_test

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/outbox"
)

func brokenPublisher(context.Context, outbox.Event) error { panic("boom") }

// A relay survives a publisher that panics, so nothing else prints where it was.
func TestThePlaceOfAPanicIsLogged(t *testing.T) {
	inBubble(t, func(g *rig) {
		var out bytes.Buffer
		g.enqueue(outbox.Event{ID: "k", Payload: []byte("secret")})
		stop := g.relay(g.queue, brokenPublisher, outbox.Logger(slog.New(slog.NewJSONHandler(&out, nil))),
			constant(2, time.Second))
		time.Sleep(time.Minute)
		synctest.Wait()
		stop()
		lines := 0
		for d := json.NewDecoder(&out); d.More(); {
			var line map[string]any
			require.NoError(g, d.Decode(&line))
			if line["attempt"] == nil {
				continue // the destination is disabled
			}
			lines++
			require.Equal(g, "ERROR", line["level"], "it is a fault in the program")
			require.Equal(g, "outbox: the publisher panicked: boom", line["error"])
			require.Contains(g, line["stack"], "outbox_test.brokenPublisher")
		}
		require.Equal(g, 2, lines)
		require.Equal(g, "outbox: the publisher panicked: boom", g.letters()[0].Failure().Reason)
	})
}
