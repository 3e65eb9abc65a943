package gateway_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo"
	"github.com/redo-go/redo/gateway"
	"github.com/redo-go/redo/store/memstore"
)

// A leg is the upstream's response to one of two requests: after a time, with a status, or zero for an error.
type leg struct {
	after  time.Duration
	status int
}

// legs is an upstream that responds with one leg after the other. It counts the bodies that are not closed.
type legs struct {
	script   []leg
	deaf     bool       // it also responds to a request that was given up
	mu       sync.Mutex // guards the rest
	contexts []context.Context
	open     int
}

func (l *legs) RoundTrip(r *http.Request) (*http.Response, error) {
	l.mu.Lock()
	next := l.script[len(l.contexts)]
	l.contexts = append(l.contexts, r.Context())
	l.mu.Unlock()
	gone := r.Context().Done()
	if l.deaf {
		gone = nil
	}
	select {
	case <-time.After(next.after):
	case <-gone:
		return nil, r.Context().Err()
	}
	if next.status == 0 {
		return nil, errors.New("connection reset by peer")
	}
	l.mu.Lock()
	l.open++
	l.mu.Unlock()
	body := countedBody{strings.NewReader(textOf(next.status)), l}
	return &http.Response{StatusCode: next.status, Header: http.Header{}, Body: body, Request: r}, nil
}

// textOf returns the body of a response. The client does not read one of that length ahead, also after a failure.
func textOf(status int) string { return strings.Repeat(http.StatusText(status), 1<<14) }

type countedBody struct {
	io.Reader
	of *legs
}

func (b countedBody) Close() error {
	b.of.mu.Lock()
	b.of.open--
	b.of.mu.Unlock()
	return nil
}

func TestHedge(t *testing.T) {
	const ms = time.Millisecond
	for _, c := range []struct {
		rule     string
		method   string
		body     string
		script   []leg
		status   int
		elapsed  time.Duration
		requests int
		single   bool // it is never sent twice
	}{
		{"a quick response needs no second request", "GET", "", []leg{{900 * ms, 200}}, 200, 900 * ms, 1, false},
		{"a quick failure is the response", "GET", "", []leg{{0, 500}}, 500, 0, 1, false},
		{"a quick error is the response", "GET", "", []leg{{0, 0}}, 502, 0, 1, false},
		{"the second may win", "GET", "", []leg{{9000 * ms, 200}, {500 * ms, 201}}, 201, 1500 * ms, 2, false},
		{"the first may win", "HEAD", "", []leg{{1500 * ms, 499}, {900 * ms, 201}}, 499, 1500 * ms, 2, false},
		{"a failure waits for the other", "GET", "", []leg{{1500 * ms, 500}, {900 * ms, 200}}, 200, 1900 * ms, 2, false},
		{"an error waits for the other", "GET", "", []leg{{1500 * ms, 0}, {900 * ms, 200}}, 200, 1900 * ms, 2, false},
		{"of two failures the last is it", "GET", "", []leg{{2500 * ms, 500}, {900 * ms, 503}}, 500, 2500 * ms, 2, false},
		{"of two errors the last counts", "GET", "", []leg{{1500 * ms, 0}, {900 * ms, 0}}, 502, 1900 * ms, 2, false},
		{"a POST is sent once", "POST", "", []leg{{1500 * ms, 200}}, 200, 1500 * ms, 1, true},
		{"a GET with a body is sent once", "GET", "x", []leg{{1500 * ms, 200}}, 200, 1500 * ms, 1, true},
	} {
		t.Run(c.rule, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				up := &legs{script: c.script}
				u := &url.URL{Scheme: "http", Host: "upstream.example"}
				g, err := gateway.New(u, memstore.New(), gateway.Principal(user), gateway.Secret(secret),
					gateway.Hedge(time.Second), gateway.Client(redo.WithTransport(up),
						redo.WithRetry(redo.RetryPolicy{MaxAttempts: 1})))
				require.NoError(t, err)
				w, start := httptest.NewRecorder(), time.Now()
				g.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), c.method, "/", strings.NewReader(c.body)))
				require.Equal(t, c.status, w.Code)
				require.Equal(t, c.elapsed, time.Since(start))
				if c.status != 502 {
					require.Equal(t, textOf(c.status), w.Body.String())
				}
				synctest.Wait()
				require.Len(t, up.contexts, c.requests)
				require.Zero(t, up.open)
				for _, ctx := range up.contexts {
					require.Equal(t, c.single, ctx.Err() == nil, "a hedged request is given up")
				}
			})
		})
	}
}

// The losing response may be under way when the other one wins.
func TestTheLosingResponseIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		up := &legs{script: []leg{{1500 * time.Millisecond, 200}, {900 * time.Millisecond, 200}}, deaf: true}
		w := httptest.NewRecorder()
		g := local(t, memstore.New(), up.RoundTrip, gateway.Hedge(time.Second))
		g.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
		require.Equal(t, http.StatusOK, w.Code)
		time.Sleep(time.Second)
		synctest.Wait()
		require.Len(t, up.contexts, 2)
		require.Zero(t, up.open)
	})
}

// The losing request ends with an error of its own, often just after the other one.
func TestTheLosingRequestChangesNoHeader(t *testing.T) {
	var requests atomic.Int64
	g := local(t, memstore.New(), func(r *http.Request) (*http.Response, error) {
		if requests.Add(1)%2 == 1 {
			<-r.Context().Done()
			return nil, r.Context().Err()
		}
		return respond(http.StatusOK)(r)
	}, gateway.Hedge(time.Microsecond))
	for range 2000 {
		w := httptest.NewRecorder()
		g.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
		require.Equal(t, http.StatusOK, w.Code)
		require.Empty(t, w.Header())
	}
}

func TestNothingIsHedgedByDefault(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		up := &legs{script: []leg{{5 * time.Second, 200}}}
		w := httptest.NewRecorder()
		local(t, memstore.New(), up.RoundTrip).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
		require.Equal(t, http.StatusOK, w.Code)
		require.Len(t, up.contexts, 1)
	})
}
