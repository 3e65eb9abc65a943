package conformance_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"

	"github.com/redo-go/redo/conformance"
	"github.com/redo-go/redo/server"
	"github.com/redo-go/redo/store/memstore"
)

// shop serves an API behind redo's middleware, and how many orders there are.
func shop() *httptest.Server {
	var orders atomic.Int64
	create := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusCreated)
		fmt.Fprintf(w, `{"id":"order_%d"}`, orders.Add(1))
	})
	mux := http.NewServeMux()
	mux.Handle("POST /orders", server.Middleware(memstore.New(), server.Required(), server.SharedKeys())(create))
	mux.HandleFunc("GET /orders", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `{"total":%d}`,
			orders.Load())
	})
	return httptest.NewServer(mux)
}

func ExampleRun() {
	srv := shop()
	defer srv.Close()

	target, err := conformance.ReadTarget(strings.NewReader(`{
		"base_url": "` + srv.URL + `",
		"operation": {"method": "POST", "path": "/orders", "body": {"item": "{{payload}}"}},
		"key": {"required": true, "strict": true},
		"effects": {"url": "/orders", "path": "total"}
	}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	report, err := conformance.Run(context.Background(), target, conformance.Only("replay-body", "mismatch-body",
		"fault-lost-response"))
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, res := range report.Results {
		fmt.Println(res.Verdict, res.Slug)
	}
	fmt.Println("exit code", report.ExitCode(false))
	// Output:
	// pass ctl-baseline
	// pass ctl-distinct-keys
	// pass ctl-oracle
	// pass replay-body
	// pass mismatch-body
	// pass fault-lost-response
	// exit code 0
}

// A server without deduplication fails, and the report has the evidence.
func ExampleReport() {
	var n atomic.Int64
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `{"id":%d}`, n.Add(1))
	}))
	defer srv.Close()

	report, err := conformance.Run(context.Background(), conformance.Target{
		BaseURL:   srv.URL,
		Operation: conformance.Operation{Method: "POST", Path: "/orders", Body: `{"item":"{{payload}}"}`},
		Effects:   &conformance.Effects{ResponseID: "id"},
	}, conformance.Only("replay-effect"))
	if err != nil {
		fmt.Println(err)
		return
	}
	res, _ := report.Result("replay-effect")
	fmt.Println(res.Verdict, res.Rule)
	fmt.Println("expected", res.Findings[0].Expected)
	fmt.Println("actual", res.Findings[0].Actual)

	document, err := json.Marshal(report) // to be kept, and compared with the next one
	fmt.Println(len(document) > 0, err, report.ExitCode(false))
	// Output:
	// fail One key, one effect.
	// expected 1 effect
	// actual 3 effects
	// true <nil> 1
}

// Each case has its requests, the result that passes, the reason and the sources.
func ExampleCases() {
	for _, c := range conformance.Cases() {
		if c.Slug == "fault-truncated-request" {
			fmt.Println(c.Level, c.Slug)
			fmt.Println(c.Sequence)
			fmt.Println(c.Rule)
			fmt.Println(c.Sources[0].Ref)
		}
	}
	// Output:
	// MUST fault-truncated-request
	// a key and half of its body, closed; the whole request
	// Half a request has no effect and does not spoil its key: the retry succeeds, with one effect.
	// RFC 9112 section 8
}
