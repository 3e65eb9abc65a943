package otelredo_test

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	collectormetrics "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	collectortrace "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	metrics "go.opentelemetry.io/proto/otlp/metrics/v1"
	trace "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/redo-go/redo/otelredo"
)

// A receiver is an OTLP receiver over HTTP, and the providers that export to it.
type receiver struct {
	t       *testing.T
	tracers *sdktrace.TracerProvider
	meters  *sdkmetric.MeterProvider

	mu      sync.Mutex
	spans   []*trace.Span
	metrics map[string]*metrics.Metric
	raw     bytes.Buffer // everything that was received
}

func newReceiver(t *testing.T) *receiver {
	t.Helper()
	r := &receiver{t: t, metrics: map[string]*metrics.Metric{}}
	srv := httptest.NewServer(r)
	t.Cleanup(srv.Close)
	spans, err := otlptracehttp.New(t.Context(), otlptracehttp.WithEndpointURL(srv.URL+"/v1/traces"))
	require.NoError(t, err)
	numbers, err := otlpmetrichttp.New(t.Context(), otlpmetrichttp.WithEndpointURL(srv.URL+"/v1/metrics"))
	require.NoError(t, err)
	r.tracers = sdktrace.NewTracerProvider(sdktrace.WithBatcher(spans))
	r.meters = sdkmetric.NewMeterProvider(sdkmetric.WithReader(sdkmetric.NewPeriodicReader(numbers)))
	return r
}

func (r *receiver) options() []otelredo.Option {
	return []otelredo.Option{otelredo.TracerProvider(r.tracers), otelredo.MeterProvider(r.meters)}
}

// flush exports everything.
func (r *receiver) flush() {
	r.t.Helper()
	require.NoError(r.t, r.tracers.ForceFlush(r.t.Context()))
	require.NoError(r.t, r.meters.ForceFlush(r.t.Context()))
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body := req.Body
	if req.Header.Get("Content-Encoding") == "gzip" {
		unzipped, err := gzip.NewReader(body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		body = unzipped
	}
	b, err := io.ReadAll(body)
	if err == nil {
		err = r.take(req.URL.Path, b)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/x-protobuf")
}

func (r *receiver) take(path string, b []byte) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.raw.Write(b)
	if strings.HasSuffix(path, "/traces") {
		var in collectortrace.ExportTraceServiceRequest
		if err := proto.Unmarshal(b, &in); err != nil {
			return err
		}
		for _, resource := range in.ResourceSpans {
			for _, scope := range resource.ScopeSpans {
				r.spans = append(r.spans, scope.Spans...)
			}
		}
		return nil
	}
	var in collectormetrics.ExportMetricsServiceRequest
	if err := proto.Unmarshal(b, &in); err != nil {
		return err
	}
	for _, resource := range in.ResourceMetrics {
		for _, scope := range resource.ScopeMetrics {
			for _, m := range scope.Metrics {
				r.metrics[m.Name] = m // cumulative: the last one counts
			}
		}
	}
	return nil
}

// named returns the spans with the name.
func (r *receiver) named(name string) (found []*trace.Span) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.spans {
		if s.Name == name {
			found = append(found, s)
		}
	}
	return found
}

// attribute returns the text of a span's attribute.
func attribute(s *trace.Span, key string) string {
	for _, a := range s.Attributes {
		if a.Key == key {
			return a.Value.GetStringValue()
		}
	}
	return ""
}

// sum returns the sum of a counter over all of its attributes.
func (r *receiver) sum(name string) (total int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range r.metrics[name].GetSum().GetDataPoints() {
		total += p.GetAsInt()
	}
	return total
}
