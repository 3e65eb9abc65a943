package otelredo_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo"
	"github.com/redo-go/redo/inbox"
	"github.com/redo-go/redo/otelredo"
	"github.com/redo-go/redo/outbox"
	"github.com/redo-go/redo/outbox/memoutbox"
	"github.com/redo-go/redo/server"
	"github.com/redo-go/redo/store/memstore"
)

func TestTheLinesOfTheDocsWork(t *testing.T) {
	st, queue := memstore.New(), memoutbox.New()
	publisher := outbox.PublisherFunc(func(context.Context, outbox.Event) error { return nil })
	customer := func(*http.Request) string { return "account-1" }
	client, err := redo.New(redo.WithStore(st), redo.WithObserver(otelredo.Client()))
	require.NoError(t, err)
	once := server.Middleware(st, server.Required(), server.Principal(customer), server.Observe(otelredo.Server()))
	relay, err := outbox.NewRelay(queue, publisher, outbox.Observe(otelredo.Outbox()))
	require.NoError(t, err)
	events, err := inbox.New(st, inbox.Observe(otelredo.Inbox()))
	require.NoError(t, err)
	require.NoError(t, client.Close())
	require.NotNil(t, once(http.NotFoundHandler()))
	require.NotNil(t, relay)
	require.NotNil(t, events)
}

func TestDocsListTheMetrics(t *testing.T) {
	page, err := os.ReadFile("../docs/observability.md")
	require.NoError(t, err)
	var want strings.Builder
	for _, m := range otelredo.Metrics() {
		fmt.Fprintf(&want, "| `%s` | %s | %s |\n", m.Name, m.Unit, m.Description)
	}
	require.Contains(t, string(page), want.String(), "the table of docs/observability.md")
}
