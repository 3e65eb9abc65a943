package main

import (
	"bytes"
	"fmt"
	"net/http"
	"strconv"

	"github.com/redo-go/redo/benchmarks/contest"
	"github.com/redo-go/redo/benchmarks/post"
	"github.com/redo-go/redo/server"
	"github.com/redo-go/redo/store/memstore"
)

// Names of the contestants among the handlers, as the targets use them.
const (
	byHandler = "bare handler"
	byParts   = "parts of a first run"
	byFirst   = "first run"
	byReplay  = "replay"
)

func middlewareScenario() contest.Scenario {
	return contest.Scenario{
		Name:      "middleware",
		Title:     "server.Middleware over memstore around a handler that reads the body, a 256-byte POST, no connection",
		Reference: byHandler,
		Contestants: []contest.Contestant{
			{Name: byHandler, Open: handled(unguarded, post.Created, false, "")},
			{Name: byParts, Open: handled(inParts, post.Created, false, "stored")},
			{Name: byFirst, Open: handled(guarded, post.Created, false, "stored")},
			{Name: byReplay, Open: handled(guarded, post.Created, true, "replayed")},
		},
	}
}

func unguarded(next http.Handler) http.Handler { return next }

func guarded(next http.Handler) http.Handler {
	return server.Middleware(memstore.New(), server.Required(), server.SharedKeys())(next)
}

// storeLife is the number of requests after which a handler gets an empty store. Records are kept for 24 hours, so
// they would otherwise fill the memory. The garbage collector's work on them would then be measured too.
const storeLife = 1 << 13

// handled sends next, as guard wraps it, the same request and writer again and again. Each request has a new key, or
// all have one key that the handler has seen before. handled checks each response's Idempotency-Status.
func handled(
	guard func(next http.Handler) http.Handler, next http.Handler, replays bool, status string,
) func(string) (contest.Runner, error) {
	return func(string) (contest.Runner, error) {
		payload := make([]byte, post.SmallBody)
		body := bytes.NewReader(payload) // http.NewRequest would replace an empty one by http.NoBody
		req, err := http.NewRequest(http.MethodPost, "/v1/refunds", body)
		if err != nil {
			return contest.Runner{}, err
		}
		req.Pattern = "POST /v1/refunds" // the server's mux sets it
		w := &sink{header: http.Header{}}
		key := []string{""}
		req.Header["Content-Type"], req.Header["Idempotency-Key"] = post.ContentType, key
		var text [48]byte
		serve := func(h http.Handler, number int) {
			body.Reset(payload)
			clear(w.header)
			// The string is made anew for a replay too, so that all contestants pay for it.
			key[0] = string(strconv.AppendInt(append(text[:0], "0193a5c8-7b1e-7c3a-9d42-"...), int64(number), 10))
			h.ServeHTTP(w, req)
		}
		var h http.Handler
		return contest.Serially(func(i int) error {
			number := i
			if replays {
				number = 0
			}
			if i%storeLife == 0 {
				h = guard(next)
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
