package server_test

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/server"
	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/memstore"
)

func TestOversize(t *testing.T) {
	big := strings.Repeat("x", 100)
	run := func(status int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Own", "1")
			w.WriteHeader(status)
			for range 10 {
				_, _ = io.WriteString(w, big[:10])
			}
			_, _ = w.Write([]byte("end"))
		}
	}
	t.Run("the first caller gets it whole, a retry gets 409 and runs nothing", func(t *testing.T) {
		g := newRig(t, memstore.New(), run(201), server.MaxResponse(99))
		w := g.do()
		require.Equal(t, 201, w.Code)
		require.Equal(t, big+"end", w.Body.String())
		require.Equal(t, "1", w.Header().Get("X-Own"))
		require.Empty(t, w.Header().Get("Idempotency-Status"), "it is not stored")
		for range 2 {
			require.False(t, requireProblem(t, g.do(), 409, "CONFLICT.idempotency.result_not_stored").Retryable)
		}
		require.Equal(t, 1, g.ran())
	})
	t.Run("a refusal was not applied, and a retry must not be told so", func(t *testing.T) {
		g := newRig(t, memstore.New(), run(422), server.MaxResponse(99))
		require.Equal(t, 422, g.do().Code)
		for range 2 {
			p := requireProblem(t, g.do(), 409, "CONFLICT.idempotency.outcome_unknown")
			require.Contains(t, p.Detail, "status 422")
		}
		require.Equal(t, 1, g.ran())
	})
	t.Run("at the limit it is stored", func(t *testing.T) {
		g := newRig(t, memstore.New(), run(201), server.MaxResponse(103))
		requireStored(t, g.do(), 201, big+"end")
		requireReplayed(t, g.do(), 201, big+"end")
	})
	t.Run("its record exists before its first byte is out", func(t *testing.T) {
		st := newFaults(nil)
		g := newRig(t, st, run(200), server.MaxResponse(10))
		w := &orderedWriter{sink: sink{header: http.Header{}}, onHeader: func() {
			require.Equal(t, 1, st.count("Complete"))
		}}
		g.ServeHTTP(w, request(t.Context()))
		require.Equal(t, 200, w.status)
	})
	t.Run("one that requests a retry is passed on and released", func(t *testing.T) {
		g := newRig(t, memstore.New(), run(503), server.MaxResponse(10))
		for range 2 {
			w := g.do()
			requireReleased(t, w, 503)
			require.Equal(t, big+"end", w.Body.String())
		}
		require.Equal(t, 2, g.ran())
	})
	t.Run("one that the store does not take is 503, and the handler gets the error", func(t *testing.T) {
		var told error
		g := newRig(t, newFaults(failing("Complete", store.ErrLost)), func(w http.ResponseWriter, _ *http.Request) {
			_, told = io.WriteString(w, big)
			_, again := io.WriteString(w, "more")
			require.Equal(t, told, again)
		}, server.MaxResponse(10))
		requireProblem(t, g.do(), 503, "DEPENDENCY.unavailable")
		require.ErrorContains(t, told, "could not be recorded")
	})
	t.Run("a panic after it has gone out changes nothing", func(t *testing.T) {
		st := newFaults(nil)
		g := newRig(t, st, func(w http.ResponseWriter, r *http.Request) {
			run(200)(w, r)
			panic(http.ErrAbortHandler)
		}, server.MaxResponse(10))
		require.PanicsWithValue(t, http.ErrAbortHandler, func() { g.do() })
		require.Zero(t, st.count("Release"))
		requireProblem(t, g.do(), 409, "CONFLICT.idempotency.result_not_stored")
	})
	t.Run("a header beyond all limits is not stored either", func(t *testing.T) {
		g := newRig(t, memstore.New(), func(w http.ResponseWriter, _ *http.Request) {
			w.Header()["X-Many"] = make([]string, 2000)
			w.WriteHeader(http.StatusOK)
		})
		require.Len(t, g.do().Header()["X-Many"], 2000)
		requireProblem(t, g.do(), 409, "CONFLICT.idempotency.result_not_stored")
	})
}

// net/http finds the length of a short body itself.
func TestLengthOfALongResponse(t *testing.T) {
	for size, want := range map[int]string{2048: "", 2049: "2049", 5000: "5000"} {
		g := newRig(t, memstore.New(), func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "7") // not believed
			_, _ = io.WriteString(w, strings.Repeat("x", size))
		})
		require.Equal(t, want, g.do().Header().Get("Content-Length"), "the first response of %d bytes", size)
		require.Equal(t, want, g.do().Header().Get("Content-Length"), "the replay")
	}
	t.Run("with trailers is not known in advance", func(t *testing.T) {
		g := newRig(t, memstore.New(), func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Trailer", "X-Sum")
			_, _ = io.WriteString(w, strings.Repeat("x", 5000))
		})
		require.Empty(t, g.do().Header().Get("Content-Length"))
	})
}

// net/http sends such trailers with a chunked response only.
func TestFirstCallerGetsUnannouncedTrailers(t *testing.T) {
	for name, early := range map[string]bool{"set before the body": true, "set after the body": false} {
		t.Run(name, func(t *testing.T) {
			srv := httptest.NewServer(newRig(t, memstore.New(), func(w http.ResponseWriter, _ *http.Request) {
				if early {
					w.Header().Set(http.TrailerPrefix+"X-Sum", "1")
				}
				_, _ = io.WriteString(w, strings.Repeat("x", 5000))
				w.Header().Set(http.TrailerPrefix+"X-Sum", "1")
			}))
			t.Cleanup(srv.Close)
			resp, body := overTheWire(t, srv)
			require.Len(t, body, 5000)
			require.Equal(t, "1", resp.Trailer.Get("X-Sum"))
		})
	}
}

// net/http sends the headers as they were at the status.
func TestAHeaderThatChangesAfterTheStatusIsSentAsItWas(t *testing.T) {
	h := newRig(t, memstore.New(), func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Trailer", "X-Sum, X-Size")
		w.Header().Set("X-Attempt", "1")
		created(w, r)
		for _, name := range []string{"X-Attempt", "X-Late", "X-Size", http.TrailerPrefix + "X-Own"} {
			w.Header().Set(name, "2")
		}
	})
	for name, layer := range map[string]http.Handler{"none": h, "one that sends the header late": sendsHeaderLate(h)} {
		srv := httptest.NewServer(layer)
		t.Cleanup(srv.Close)
		for turn := range 2 {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, srv.URL+"/refunds/1", nil)
			require.NoError(t, err)
			req.Header.Set("Idempotency-Key", name)
			resp, err := srv.Client().Do(req)
			require.NoError(t, err)
			_, err = io.Copy(io.Discard, resp.Body)
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
			require.Equal(t, []string{"1"}, resp.Header["X-Attempt"], name)
			require.Empty(t, resp.Header["X-Late"], name)
			if turn == 0 {
				require.Equal(t, http.Header{"X-Sum": nil, "X-Size": {"2"}, "X-Own": {"2"}}, resp.Trailer, name)
			}
		}
	}
}

// sendsHeaderLate is a layer outside that reads the header when the handler has returned, as HTTP/3 servers and layers
// that compress do for a short response.
func sendsHeaderLate(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		late := httptest.NewRecorder()
		h.ServeHTTP(lateWriter{w, late}, r)
		w.WriteHeader(late.Code)
		_, _ = w.Write(late.Body.Bytes())
	})
}

type lateWriter struct {
	http.ResponseWriter
	late *httptest.ResponseRecorder
}

func (w lateWriter) WriteHeader(status int)      { w.late.WriteHeader(status) }
func (w lateWriter) Write(p []byte) (int, error) { return w.late.Write(p) }

func TestReplayIsExact(t *testing.T) {
	for _, c := range []struct {
		rule string
		run  http.HandlerFunc
	}{
		{"nothing written, where that is meant", func(http.ResponseWriter, *http.Request) {}},
		{"an empty body", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(nil) }},
		{"204", answer(204, "")},
		{
			"304 with an ETag",
			func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Etag", `"1"`); w.WriteHeader(304) },
		},
		{"a body on 204 is refused as net/http does", func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(204)
			n, err := w.Write([]byte("x"))
			m, again := io.WriteString(w, "x")
			if n != 0 || m != 0 || !errors.Is(err, http.ErrBodyNotAllowed) || !errors.Is(again, http.ErrBodyNotAllowed) {
				panic(errors.Join(err, again))
			}
		}},
		{
			"bytes that are no text",
			func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte{0, 255, 10, 13}) },
		},
		{"several values, an unset one, an encoding", func(w http.ResponseWriter, _ *http.Request) {
			w.Header()["Vary"] = []string{"Accept", "Origin"}
			w.Header()["Content-Type"] = nil
			w.Header().Set("Content-Encoding", "gzip")
			_, _ = w.Write([]byte{0x1f, 0x8b})
		}},
		{"a body in parts, with a second status", func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(202)
			_, _ = io.WriteString(w, "a")
			w.WriteHeader(500)
			w.Header().Set("X-Late", "1")
			_, _ = io.WriteString(w, "b")
			w.(http.Flusher).Flush()
			_, _ = io.WriteString(w, "c")
		}},
	} {
		t.Run(c.rule, func(t *testing.T) {
			g := newRig(t, memstore.New(), c.run, server.SilentOK())
			first, second := g.do().Result(), g.do().Result()
			require.Equal(t, "stored", first.Header.Get("Idempotency-Status"))
			require.Equal(t, "replayed", second.Header.Get("Idempotency-Status"))
			for _, h := range []http.Header{first.Header, second.Header} {
				h.Del("Idempotency-Status")
				h.Del("Idempotent-Replayed")
			}
			require.Equal(t, first.StatusCode, second.StatusCode)
			require.Equal(t, first.Header, second.Header)
			require.Empty(t, second.Header.Get("X-Late"))
			a, err := io.ReadAll(first.Body)
			require.NoError(t, err)
			b, err := io.ReadAll(second.Body)
			require.NoError(t, err)
			require.Equal(t, a, b)
			require.Equal(t, 1, g.ran())
		})
	}
}

func TestNeverReplayedHeaders(t *testing.T) {
	names := []string{
		"Connection", "Keep-Alive", "Upgrade", "Date", "Set-Cookie", "Www-Authenticate", "X-Ratelimit-Remaining",
		"Ratelimit",
		"Retry-After", "X-Request-Id", "Traceparent", "Access-Control-Allow-Origin", "X-Hop", "Idempotent-Replayed",
	}
	g := newRig(t, memstore.New(), func(w http.ResponseWriter, _ *http.Request) {
		for _, name := range names {
			w.Header().Set(name, "first")
		}
		w.Header().Set("Connection", "X-Hop")
		w.Header().Set("X-Own", "kept")
		w.WriteHeader(http.StatusOK)
	})
	inner := g.Handler
	turn := "outer 1"
	g.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Outer", turn) // set outside, and kept by the handler
		inner.ServeHTTP(w, r)
	})
	first := g.do().Header()
	for _, name := range names[:len(names)-1] {
		require.NotEmpty(t, first.Get(name), "the first caller gets %s", name)
	}
	require.Empty(t, first.Get("Idempotent-Replayed"), "a first response is no replay, with any header of the handler")
	turn = "outer 2"
	second := g.do().Header()
	for _, name := range names[:len(names)-1] {
		require.NotContains(t, second, name)
	}
	require.Equal(t, "kept", second.Get("X-Own"))
	require.Equal(t, "outer 2", second.Get("X-Outer"), "a header that is set outside is made anew")
}

func TestEncoding(t *testing.T) {
	t.Run("the handler never compresses for one client a response that another will get", func(t *testing.T) {
		g := newRig(t, memstore.New(), func(w http.ResponseWriter, r *http.Request) {
			require.Empty(t, r.Header.Get("Accept-Encoding"))
			require.Equal(t, "kept", r.Header.Get("X-Own"))
			created(w, r)
		})
		r := request(t.Context(), withHeader("Accept-Encoding", "gzip"), withHeader("X-Own", "kept"))
		g.ServeHTTP(httptest.NewRecorder(), r)
		require.Equal(t, "gzip", r.Header.Get("Accept-Encoding"), "the request itself is not changed")
		requireReplayed(t, g.do(withHeader("Accept-Encoding", "identity")), 201, `{"id":"rf_123"}`)
	})
}

// A connection that changes its protocol has no response to record. Java's HttpClient offers h2c with every request.
func TestAnOfferOfAnotherProtocolDoesNotReachTheHandler(t *testing.T) {
	var effects atomic.Int32
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		effects.Add(1)
		if offer := r.Header.Get("Upgrade"); offer != "" {
			w.Header().Set("Connection", "Upgrade")
			w.Header().Set("Upgrade", offer)
			w.WriteHeader(http.StatusSwitchingProtocols)
			return
		}
		require.Equal(t, "kept", r.Header.Get("X-Own"))
		created(w, r)
	}))
	t.Cleanup(upstream.Close)
	target, err := url.Parse(upstream.URL)
	require.NoError(t, err)
	g := newRig(t, memstore.New(), httputil.NewSingleHostReverseProxy(target).ServeHTTP)
	offer := func(r *http.Request) {
		r.Header.Set("Connection", "Upgrade, HTTP2-Settings")
		r.Header.Set("Upgrade", "h2c")
		r.Header.Set("Http2-Settings", "AAEAAEAAAAIAAAAAAAMAAAAAAAQBAAAAAAUAAEAAAAYABgAA")
		r.Header.Set("X-Own", "kept")
	}
	r := request(t.Context(), offer)
	g.ServeHTTP(httptest.NewRecorder(), r)
	require.Equal(t, "h2c", r.Header.Get("Upgrade"), "the request itself is not changed")
	requireReplayed(t, g.do(offer), 201, `{"id":"rf_123"}`)
	require.EqualValues(t, 1, effects.Load())
}

// wireWriter is a writer with everything that a connection has.
type wireWriter struct {
	sink
	statuses []int
	flushes  int
	deadline time.Time
}

func (w *wireWriter) WriteHeader(status int)             { w.statuses = append(w.statuses, status) }
func (w *wireWriter) Flush()                             { w.flushes++ }
func (w *wireWriter) SetReadDeadline(t time.Time) error  { w.deadline = t; return nil }
func (w *wireWriter) SetWriteDeadline(t time.Time) error { w.deadline = t; return nil }
func (w *wireWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return nil, nil, errors.New("hijacked")
}

func TestResponseController(t *testing.T) {
	serve := func(t *testing.T, run http.HandlerFunc, opts ...server.Option) *wireWriter {
		t.Helper()
		w := &wireWriter{sink: sink{header: http.Header{}}}
		newRig(t, memstore.New(), run, opts...).ServeHTTP(w, request(t.Context()))
		return w
	}
	t.Run("can't hijack past the record", func(t *testing.T) {
		serve(t, func(w http.ResponseWriter, _ *http.Request) {
			_, _, err := http.NewResponseController(w).Hijack()
			require.ErrorIs(t, err, http.ErrNotSupported)
			_, hijacks := w.(http.Hijacker)
			require.False(t, hijacks)
			_, unwraps := w.(interface{ Unwrap() http.ResponseWriter })
			require.False(t, unwraps)
		})
	})
	t.Run("a flush is held back with the response", func(t *testing.T) {
		w := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "a")
			require.NoError(t, http.NewResponseController(w).Flush())
		})
		require.Zero(t, w.flushes)
		require.Equal(t, []int{200}, w.statuses)
	})
	t.Run("a flush goes through once the response is too large to be stored", func(t *testing.T) {
		w := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "ab")
			require.NoError(t, http.NewResponseController(w).Flush())
		}, server.MaxResponse(1))
		require.Equal(t, 1, w.flushes)
	})
	t.Run("sets the connection's deadlines", func(t *testing.T) {
		at := time.Now().Add(time.Hour)
		w := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			require.NoError(t, http.NewResponseController(w).SetReadDeadline(at))
			require.NoError(t, http.NewResponseController(w).SetWriteDeadline(at))
		})
		require.Equal(t, at, w.deadline)
	})
	t.Run("reads the body, which is in memory, while the response is written", func(t *testing.T) {
		serve(t, func(w http.ResponseWriter, r *http.Request) {
			require.NoError(t, http.NewResponseController(w).EnableFullDuplex())
			_, _ = io.WriteString(w, "a")
			b, err := io.ReadAll(r.Body)
			require.NoError(t, err)
			require.NotEmpty(t, b)
		})
	})
	t.Run("informational responses go out immediately and are not recorded", func(t *testing.T) {
		w := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusEarlyHints)
			w.WriteHeader(http.StatusProcessing)
			w.WriteHeader(http.StatusCreated)
		})
		require.Equal(t, []int{103, 102, 201}, w.statuses)
	})
	t.Run("an impossible status panics in the handler, as in net/http, and releases", func(t *testing.T) {
		g := newRig(t, memstore.New(), answer(1000, ""))
		for range 2 {
			require.PanicsWithValue(t, "server: invalid WriteHeader code 1000", func() { g.do() })
		}
		require.Equal(t, 2, g.ran())
	})
}
