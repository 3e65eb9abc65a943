package otelredo_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	sdk "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/redo-go/redo"
	"github.com/redo-go/redo/otelredo"
	"github.com/redo-go/redo/outbox"
	"github.com/redo-go/redo/outbox/memoutbox"
	"github.com/redo-go/redo/webhook"
)

// collect returns the metrics of a reader by name.
func collect(t *testing.T, reader sdk.Reader) map[string]metricdata.Aggregation {
	t.Helper()
	var all metricdata.ResourceMetrics
	require.NoError(t, reader.Collect(t.Context(), &all))
	found := map[string]metricdata.Aggregation{}
	for _, s := range all.ScopeMetrics {
		for _, m := range s.Metrics {
			found[m.Name] = m.Data
		}
	}
	return found
}

// A webhook's consumer chooses the code of its response, and each value of an attribute is another series.
func TestARemoteServerDoesNotChooseTheValuesOfAMetricsAttribute(t *testing.T) {
	codes := map[string]string{
		"1": "CONFLICT.hunter2-1", "2": "CONFLICT.hunter2-2", "3": "DEPENDENCY.unavailable.hunter2",
		"4": string(webhook.ClockSkew),
	}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(http.StatusConflict)
		fmt.Fprintf(w, `{"code":%q}`, codes[r.Header.Get("Idempotency-Key")])
	}))
	defer srv.Close()
	reader := sdk.NewManualReader()
	meters := otelredo.MeterProvider(sdk.NewMeterProvider(sdk.WithReader(reader)))
	client, err := redo.New(redo.WithObserver(otelredo.Client(meters)))
	require.NoError(t, err)
	publisher, err := outbox.HTTP(client)
	require.NoError(t, err)
	queue := memoutbox.New()
	for id := range codes {
		require.NoError(t, queue.Append(t.Context(), outbox.Event{ID: id, Destination: srv.URL}))
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	seen := counting{Observer: otelredo.Outbox(meters), left: len(codes), done: cancel}
	relay, err := outbox.NewRelay(queue, publisher, outbox.Workers(1), outbox.Observe(&seen))
	require.NoError(t, err)
	require.NoError(t, relay.Run(ctx))

	want := map[string]uint64{"CONFLICT": 2, "DEPENDENCY.unavailable": 1, "TRANSIENT.clock_skew": 1}
	metrics, got := collect(t, reader), map[string]uint64{}
	for _, p := range metrics["idempotent.event.attempts"].(metricdata.Sum[int64]).DataPoints {
		v, _ := p.Attributes.Value("error.type")
		got[v.AsString()] += uint64(p.Value)
	}
	require.Equal(t, want, got)
	got = map[string]uint64{}
	for _, p := range metrics["idempotent.operation.duration"].(metricdata.Histogram[float64]).DataPoints {
		v, _ := p.Attributes.Value("error.type")
		got[v.AsString()] += p.Count
	}
	require.Equal(t, want, got)
}

// counting ends a relay after some attempts.
type counting struct {
	outbox.Observer
	left int
	done func()
}

func (c *counting) ObserveAttempt(ctx context.Context, a outbox.Attempt) {
	c.Observer.ObserveAttempt(ctx, a)
	if c.left--; c.left == 0 {
		c.done()
	}
}
