package otelredo_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	otel "go.opentelemetry.io/otel/attribute"
	sdk "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/redo-go/redo"
	"github.com/redo-go/redo/otelredo"
)

// The semantic conventions have the port in an attribute of its own.
func TestTheAddressOfAServerHasNoPort(t *testing.T) {
	for host, want := range map[string][]otel.KeyValue{
		"api.example":      {otel.String("server.address", "api.example")},
		"api.example:8443": {otel.String("server.address", "api.example"), otel.Int("server.port", 8443)},
		"[::1]:8443":       {otel.String("server.address", "::1"), otel.Int("server.port", 8443)},
		"[::1]":            {otel.String("server.address", "::1")},
		"api.example:":     {otel.String("server.address", "api.example")},
		"":                 {otel.String("server.address", "")},
	} {
		reader := sdk.NewManualReader()
		observer := otelredo.Client(otelredo.MeterProvider(sdk.NewMeterProvider(sdk.WithReader(reader))))
		observer.EndOperation(observer.StartOperation(t.Context(), redo.OperationStart{Host: host}), redo.OperationEnd{})
		p := collect(t, reader)["idempotent.operation.active"].(metricdata.Sum[int64]).DataPoints
		require.Len(t, p, 1, "one series for start and end")
		require.Equal(t, want, p[0].Attributes.ToSlice(), host)
	}
}
