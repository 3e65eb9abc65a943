package otelredo_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
	sdk "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/redo-go/redo"
	"github.com/redo-go/redo/otelredo"
)

type panics struct{}

func (panics) RoundTrip(*http.Request) (*http.Response, error) { panic("a bug in the transport") }

func TestACallThatPanicsEndsItsSpansAndIsNoLongerActive(t *testing.T) {
	reader, spans := sdk.NewManualReader(), tracetest.NewInMemoryExporter()
	client, err := redo.New(redo.WithTransport(panics{}), redo.WithObserver(otelredo.Client(
		otelredo.MeterProvider(sdk.NewMeterProvider(sdk.WithReader(reader))),
		otelredo.TracerProvider(trace.NewTracerProvider(trace.WithSyncer(spans))))))
	require.NoError(t, err)
	require.Panics(t, func() { _, _ = redo.Call[any](t.Context(), client, "POST", "http://api.test/", nil) })
	var ended []string
	for _, s := range spans.GetSpans() {
		ended = append(ended, s.Name)
	}
	require.Equal(t, []string{"redo attempt", "redo POST"}, ended)
	active := collect(t, reader)["idempotent.operation.active"].(metricdata.Sum[int64]).DataPoints
	require.Len(t, active, 1)
	require.Zero(t, active[0].Value)
}
