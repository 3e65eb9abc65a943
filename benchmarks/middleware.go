package main

import (
	"bytes"
	"fmt"
	"net/http"
	"strconv"

	"github.com/redo-go/redo/server"
	"github.com/redo-go/redo/store/memstore"
)

// Names of the contestants among the handlers, as the targets use them.
const (
	byHandler = "bare handler"
	byFirst   = "first run"
	byReplay  = "replay"
)

func middlewareScenario() scenario {
	return scenario{
		name:      "middleware",
		title:     "server.Middleware over memstore around a trivial handler, a 256-byte POST, no connection",
		reference: byHandler,
		contestants: []contestant{
			{byHandler, handled(func() http.Handler { return trivial }, false, "")},
			{byFirst, handled(guarded, false, "stored")},
			{byReplay, handled(guarded, true, "replayed")},
		},
	}
}

var trivial = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
	w.Header()["Content-Type"] = contentType
	w.WriteHeader(http.StatusCreated)
	_, _ = w.Write(answerBody) // the sink takes everything
})

func guarded() http.Handler {
	return server.Middleware(memstore.New(), server.Required(), server.SharedKeys())(trivial)
}

// storeLife is the number of requests after which a handler gets an empty store. Records are kept for 24 hours, so
// they would otherwise fill the memory. The garbage collector's work on them would then be measured too.
const storeLife = 1 << 13

// handled sends a handler the same request and writer again and again. Each request has a new key, or all have one
// key that the handler has seen before. handled checks each response's Idempotency-Status.
func handled(build func() http.Handler, replays bool, status string) func(string) (runner, error) {
	return func(string) (runner, error) {
		body := bytes.NewReader(nil)
		req, err := http.NewRequest(http.MethodPost, "/v1/refunds", body)
		if err != nil {
			return runner{}, err
		}
		req.Pattern = "POST /v1/refunds" // the server's mux sets it
		req.ContentLength = smallBody
		payload := make([]byte, smallBody)
		w := &sink{header: http.Header{}}
		key := []string{""}
		req.Header["Content-Type"], req.Header["Idempotency-Key"] = contentType, key
		var text [48]byte
		serve := func(h http.Handler, number int) {
			body.Reset(payload)
			clear(w.header)
			// The string is made anew for a replay too, so that all contestants pay for it.
			key[0] = string(strconv.AppendInt(append(text[:0], "0193a5c8-7b1e-7c3a-9d42-"...), int64(number), 10))
			h.ServeHTTP(w, req)
		}
		var h http.Handler
		return serially(func(i int) error {
			number := i
			if replays {
				number = 0
			}
			if i%storeLife == 0 {
				h = build()
				if replays {
					serve(h, number)
				}
			}
			serve(h, number)
			if got := w.header.Get("Idempotency-Status"); got != status || w.status != http.StatusCreated {
				return fmt.Errorf("benchmarks: the response is %d with Idempotency-Status %q, it must be 201 with %q",
					w.status, got, status)
			}
			return nil
		}, nil), nil
	}
}

// A sink is the cheapest http.ResponseWriter there is.
type sink struct {
	header http.Header
	status int
}

func (s *sink) Header() http.Header         { return s.header }
func (s *sink) WriteHeader(status int)      { s.status = status }
func (s *sink) Write(p []byte) (int, error) { return len(p), nil }
