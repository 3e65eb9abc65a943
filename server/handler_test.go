package server_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/server"
	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/memstore"
)

func TestOutcomes(t *testing.T) {
	for _, c := range []struct {
		rule   string
		run    http.HandlerFunc
		opts   []server.Option
		status int
		stored bool
		runs   int // after a second request
	}{
		{"a 2xx is stored", answer(200, "x"), nil, 200, true, 1},
		{"a terminal 4xx is stored", answer(422, "x"), nil, 422, true, 1},
		{"a 408 releases", answer(408, "x"), nil, 408, false, 2},
		{"a 425 releases", answer(425, "x"), nil, 425, false, 2},
		{"a 429 releases", answer(429, "x"), nil, 429, false, 2},
		{"a 500 releases", answer(500, "x"), nil, 500, false, 2},
		{"a 503 releases", answer(503, "x"), nil, 503, false, 2},
		{"a 500 is stored by choice", answer(500, "x"), []server.Option{keepServerErrors()}, 500, true, 1},
		{"a 500 after Applied is stored", after(applied, answer(500, "x")), nil, 500, true, 1},
		{"a 200 after Release releases", after(server.Release, answer(200, "x")), nil, 200, false, 2},
		{"a 200 after Fail is stored", after(server.Fail, answer(200, "x")), nil, 200, true, 1},
		{"a 500 after Fail is stored", after(server.Fail, answer(500, "x")), nil, 500, true, 1},
		{
			"a 200 after Applied and Release is stored", after(applied, after(server.Release, answer(200, "x"))), nil,
			200, true, 1,
		},
	} {
		t.Run(c.rule, func(t *testing.T) {
			g := newRig(t, memstore.New(), c.run, c.opts...)
			first, second := g.do(), g.do()
			if c.stored {
				requireStored(t, first, c.status, "x")
				requireReplayed(t, second, c.status, "x")
			} else {
				requireReleased(t, first, c.status)
				requireReleased(t, second, c.status)
			}
			require.Equal(t, c.runs, g.ran())
		})
	}
	t.Run("a stored error is a failed record", func(t *testing.T) {
		st := memstore.New()
		newRig(t, st, answer(422, "x")).do()
		rec, err := st.Find(t.Context(), store.ID{Scope: "13:/refunds/{id}", Key: "k1"})
		require.NoError(t, err)
		require.Equal(t, store.StateFailed, rec.State)
	})
}

func TestPanic(t *testing.T) {
	goexit := func(http.ResponseWriter, *http.Request) { runtime.Goexit() }
	panics := func(v any) http.HandlerFunc { return func(http.ResponseWriter, *http.Request) { panic(v) } }
	boom := errors.New("boom")
	panicsAfter := func(status int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			panic(boom)
		}
	}
	t.Run("goes on with its own value, and releases the key", func(t *testing.T) {
		for _, v := range []any{boom, http.ErrAbortHandler} {
			st := newFaults(nil)
			g := newRig(t, st, panics(v))
			require.PanicsWithValue(t, v, func() { g.do() })
			require.PanicsWithValue(t, v, func() { g.do() })
			require.Equal(t, 2, g.ran())
			require.Equal(t, 2, st.count("Release"))
		}
	})
	t.Run("so does Goexit", func(t *testing.T) {
		st := newFaults(nil)
		g := newRig(t, st, goexit)
		for range 2 {
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				g.do()
			}()
			<-ended
		}
		require.Equal(t, 2, g.ran())
		require.Equal(t, 2, st.count("Release"))
	})
	for _, status := range []int{200, 201, 204, 303} {
		for _, v := range []any{boom, http.ErrAbortHandler} {
			t.Run(fmt.Sprintf("%v after %d was written never runs the handler again", v, status), func(t *testing.T) {
				st := newFaults(nil)
				g := newRig(t, st, func(w http.ResponseWriter, r *http.Request) {
					w.WriteHeader(status)
					panic(v)
				})
				require.PanicsWithValue(t, v, func() { g.do() })
				require.Zero(t, st.count("Release"))
				requireProblem(t, g.do(), 409, "CONFLICT.idempotency.result_not_stored")
				require.Equal(t, 1, g.ran())
			})
		}
	}
	for rule, run := range map[string]http.HandlerFunc{
		"a status that releases":    panicsAfter(503),
		"a refusal":                 panicsAfter(422),
		"an informational status":   panicsAfter(103),
		"a success and Release too": after(server.Release, panicsAfter(200)),
	} {
		t.Run("after "+rule+" releases the key", func(t *testing.T) {
			g := newRig(t, newFaults(nil), run)
			for range 2 {
				require.PanicsWithValue(t, boom, func() { g.do() })
			}
			require.Equal(t, 2, g.ran())
		})
	}
	t.Run("in a transaction undoes a success too, and releases the key", func(t *testing.T) {
		b := newBook(nil)
		g := newBookRig(t, b, writing("half", panicsAfter(201)))
		for range 2 {
			require.PanicsWithValue(t, boom, func() { g.do() })
		}
		require.Equal(t, 2, g.ran())
		require.Empty(t, b.committed())
	})
	// ReverseProxy panics only under net/http's server, and under HTTP/3 there is none.
	for rule, header := range map[string]http.Header{
		"with a length":    {"Content-Length": {"100"}},
		"without a length": nil,
	} {
		t.Run("of a reverse proxy whose upstream's 201 was cut never runs it again, "+rule, func(t *testing.T) {
			effects := 0
			upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				effects++
				maps.Copy(w.Header(), header)
				w.WriteHeader(http.StatusCreated)
				_, _ = io.WriteString(w, "cut")
				_ = http.NewResponseController(w).Flush()
				panic(http.ErrAbortHandler)
			}))
			t.Cleanup(upstream.Close)
			target, err := url.Parse(upstream.URL)
			require.NoError(t, err)
			proxy := &httputil.ReverseProxy{
				Rewrite:  func(r *httputil.ProxyRequest) { r.SetURL(target) },
				ErrorLog: log.New(io.Discard, "", 0),
			}
			g := newRig(t, newFaults(nil), proxy.ServeHTTP)
			require.PanicsWithValue(t, http.ErrAbortHandler, func() { g.do() })
			requireProblem(t, g.do(), 409, "CONFLICT.idempotency.result_not_stored")
			require.Equal(t, 1, effects)
		})
	}
	for rule, end := range map[string]http.HandlerFunc{
		"a panic": panics(boom), "ErrAbortHandler": panics(http.ErrAbortHandler),
	} {
		t.Run(rule+" after an effect never runs the handler again", func(t *testing.T) {
			st := newFaults(nil)
			g := newRig(t, st, after(applied, after(server.Release, end)))
			require.Panics(t, func() { g.do() })
			require.Zero(t, st.count("Release"))
			p := requireProblem(t, g.do(), 409, "CONFLICT.idempotency.result_not_stored")
			require.False(t, p.Retryable)
			require.Equal(t, 1, g.ran())
		})
	}
}

func TestTakeOver(t *testing.T) {
	// A first request runs its handler, and its process dies before the outcome is recorded.
	died := func(t *testing.T, opts ...server.Option) *rig {
		t.Helper()
		st := newFaults(failing("Complete", store.ErrUnavailable))
		g := newRig(t, st, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("X-Taken-Over", map[bool]string{true: "yes", false: "no"}[server.TakenOver(r.Context())])
			body, err := io.ReadAll(r.Body)
			require.NoError(t, err)
			require.Equal(t, `{"amount":1000}`, string(body))
			created(w, r)
		}, opts...)
		requireProblem(t, g.do(), 503, "DEPENDENCY.unavailable")
		g.shutdown()
		st.heal()
		synctest.Wait()
		requireProblem(t, g.do(), 409, "CONFLICT.idempotency.in_flight")
		time.Sleep(server.DefaultLeaseTTL)
		return g
	}
	t.Run("blocks the key for a lease and not for the retention, then runs again and reports it", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			g := died(t)
			w := g.do()
			requireStored(t, w, 201, `{"id":"rf_123"}`)
			require.Equal(t, "yes", w.Header().Get("X-Taken-Over"))
			require.Equal(t, 2, g.ran())
		})
	})
	t.Run("runs again when asked to in so many words", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			g := died(t, server.TakeOver(server.Reexecute()))
			requireStored(t, g.do(), 201, `{"id":"rf_123"}`)
			require.Equal(t, 2, g.ran())
		})
	})
	t.Run("is refused by choice, each time, and never runs", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			g := died(t, server.TakeOver(server.Refuse()))
			for range 3 {
				p := requireProblem(t, g.do(), 409, "CONFLICT.idempotency.outcome_unknown")
				require.False(t, p.Retryable)
			}
			require.Equal(t, 1, g.ran())
		})
	})
	recovery := func(h http.Handler, err error) server.Option {
		return server.TakeOver(server.Recover(
			func(ctx context.Context, r *http.Request, key string, _ []byte) (http.Handler, error) {
				if key != "k1" || !server.TakenOver(ctx) {
					return nil, errors.New("the wrong request")
				}
				_, _ = io.ReadAll(r.Body) // the handler gets it anew
				return h, err
			}))
	}
	t.Run("a recovery responds in the handler's place, and its response is stored", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			g := died(t, recovery(answer(200, "found"), nil))
			requireStored(t, g.do(), 200, "found")
			requireReplayed(t, g.do(), 200, "found")
			require.Equal(t, 1, g.ran())
		})
	})
	t.Run("a recovery that finds nothing runs the handler", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			g := died(t, recovery(nil, nil))
			requireStored(t, g.do(), 201, `{"id":"rf_123"}`)
			require.Equal(t, 2, g.ran())
		})
	})
	t.Run("a recovery without a result is 503, and the next request calls it again", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			g := died(t, recovery(nil, errors.New("provider down")))
			for range 2 {
				w := g.do()
				require.True(t, requireProblem(t, w, 503, "DEPENDENCY.unavailable").Retryable)
				require.NotContains(t, w.Body.String(), "provider down")
			}
			require.Equal(t, 1, g.ran())
		})
	})
}

// Over a real connection: the middleware's behaviour on the wire, and not only with a recorder.
func TestOverTheWire(t *testing.T) {
	srv := httptest.NewServer(newRig(t, memstore.New(), func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Link", "</style.css>; rel=preload")
		w.WriteHeader(http.StatusEarlyHints)
		w.Header().Set("Trailer", "X-Sum")
		w.WriteHeader(http.StatusOK)
		_, _ = io.WriteString(w, strings.Repeat("x", 5000))
		w.Header().Set("X-Sum", "1")
		w.Header().Set("X-Late", "1")
	}))
	t.Cleanup(srv.Close)
	for _, status := range []string{"stored", "replayed"} {
		t.Run(status, func(t *testing.T) {
			resp, body := overTheWire(t, srv)
			require.Len(t, body, 5000)
			require.Equal(t, status, resp.Header.Get("Idempotency-Status"))
			require.Equal(t, "</style.css>; rel=preload", resp.Header.Get("Link"))
			require.Empty(t, resp.Header.Get("X-Late"), "a header that is set after the status is not sent")
			if status == "stored" {
				require.Equal(t, "1", resp.Trailer.Get("X-Sum"), "the first caller gets the trailers")
			} else {
				require.Empty(t, resp.Trailer)
				require.EqualValues(t, 5000, resp.ContentLength, "a replay's length is known")
			}
		})
	}
}

// after makes a handler that reports its outcome with say and then runs next.
func after(say func(context.Context), next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		say(r.Context())
		next(w, r)
	}
}

// applied is Applied where it must succeed.
func applied(ctx context.Context) {
	if err := server.Applied(ctx); err != nil {
		panic(err)
	}
}
