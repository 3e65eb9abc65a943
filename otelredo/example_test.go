package otelredo_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/redo-go/redo"
	"github.com/redo-go/redo/otelredo"
	"github.com/redo-go/redo/server"
	"github.com/redo-go/redo/store/memstore"
)

// The spans of a client's operation. A program that has set the global providers needs no option.
func ExampleClient() {
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusCreated)
	}))
	defer service.Close()
	spans := tracetest.NewInMemoryExporter()
	tracers := trace.NewTracerProvider(trace.WithSyncer(spans))

	client, err := redo.New(redo.WithStore(memstore.New()),
		redo.WithObserver(otelredo.Client(otelredo.TracerProvider(tracers))))
	if err != nil {
		fmt.Println(err)
		return
	}
	req, _ := http.NewRequest(http.MethodPost, service.URL, strings.NewReader("{}"))
	resp, err := client.Do(req.WithContext(redo.WithOperation(req.Context(), "refund:1")))
	if err != nil {
		fmt.Println(err)
		return
	}
	resp.Body.Close()
	for _, s := range spans.GetSpans() {
		fmt.Println(s.Name)
	}
	// Output:
	// redo attempt
	// redo POST
}

// The spans of a request and of its calls to the store.
func ExampleServer() {
	spans := tracetest.NewInMemoryExporter()
	tracers := trace.NewTracerProvider(trace.WithSyncer(spans))
	once := server.Middleware(memstore.New(), server.SharedKeys(),
		server.Observe(otelredo.Server(otelredo.TracerProvider(tracers))))
	mux := http.NewServeMux()
	mux.Handle("POST /refunds", once(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusCreated)
	})))

	req := httptest.NewRequest(http.MethodPost, "/refunds", nil)
	req.Header.Set("Idempotency-Key", "k1")
	mux.ServeHTTP(httptest.NewRecorder(), req)
	for _, s := range spans.GetSpans() {
		fmt.Println(s.Name)
	}
	// Output:
	// redo store Reserve
	// redo store Complete
	// redo POST /refunds
}
