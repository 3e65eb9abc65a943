package otelredo_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	sdk "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/redo-go/redo"
	"github.com/redo-go/redo/otelredo"
	"github.com/redo-go/redo/outbox"
	"github.com/redo-go/redo/outbox/memoutbox"
	"github.com/redo-go/redo/store/memstore"
)

func TestANilPointerIsNoProviderAndNoQueue(t *testing.T) {
	observer := otelredo.Client(otelredo.MeterProvider((*sdk.MeterProvider)(nil)),
		otelredo.TracerProvider((*sdktrace.TracerProvider)(nil)))
	client, err := redo.New(redo.WithObserver(observer))
	require.NoError(t, err)
	_, err = redo.Call[any](t.Context(), client, "GET", "http://127.0.0.1:0", nil)
	require.Error(t, err, "the global providers are used")
	_, err = otelredo.ObserveBacklog((*memoutbox.Queue)(nil))
	require.EqualError(t, err, "otelredo: the queue is nil")
}

// Without names the second queue's zero would hide the dead letters of the first.
func TestQueuesAndClientsWithNamesAreSeparateSeries(t *testing.T) {
	reader := sdk.NewManualReader()
	meters := otelredo.MeterProvider(sdk.NewMeterProvider(sdk.WithReader(reader)))
	full, empty := memoutbox.New(), memoutbox.New()
	require.NoError(t, full.Append(t.Context(), outbox.Event{ID: "1"}, outbox.Event{ID: "2"}))
	for name, q := range map[string]otelredo.Backlog{"outbox": full, "inbox": empty} {
		_, err := otelredo.ObserveBacklog(q, meters, otelredo.Name(name))
		require.NoError(t, err)
		client, err := redo.New(redo.WithStore(memstore.New()))
		require.NoError(t, err)
		_, err = otelredo.Pending(client, meters, otelredo.Name(name))
		require.NoError(t, err)
	}
	metrics := collect(t, reader)
	names := map[string]bool{}
	waiting := map[string]int64{}
	for _, p := range metrics["idempotent.backlog"].(metricdata.Gauge[int64]).DataPoints {
		name, _ := p.Attributes.Value("redo.name")
		if state, _ := p.Attributes.Value("redo.state"); state.AsString() == "waiting" {
			waiting[name.AsString()] = p.Value
		}
	}
	require.Equal(t, map[string]int64{"outbox": 2, "inbox": 0}, waiting)
	for _, p := range metrics["idempotent.pending"].(metricdata.Gauge[int64]).DataPoints {
		name, _ := p.Attributes.Value("redo.name")
		names[name.AsString()] = true
	}
	require.Equal(t, map[string]bool{"outbox": true, "inbox": true}, names)
	for _, metric := range []string{"idempotent.backlog.age", "idempotent.pending.age"} {
		require.Len(t, metrics[metric].(metricdata.Gauge[float64]).DataPoints, 2, metric)
	}
	require.Len(t, metrics["idempotent.destination.disabled"].(metricdata.Gauge[int64]).DataPoints, 2)
}
