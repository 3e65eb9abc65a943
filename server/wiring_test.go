package server_test

import (
	"bytes"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/server"
	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/memstore"
)

// hidden is a handler whose framework keeps the response where the middleware does not see it.
func hidden(http.ResponseWriter, *http.Request) {}

// A logFile keeps a logger's output. It may be read while the background logs.
type logFile struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logFile) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logFile) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func logged() (*logFile, server.Option) {
	var log logFile
	return &log, server.Logger(slog.New(slog.NewTextHandler(&log, nil)))
}

// A middleware of the router and one of the route make one ID. Without a rule for it each request is "in flight".
func TestMiddlewareTwiceForARoute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, logger := logged()
		once := server.Middleware(memstore.New(), server.SharedKeys(), server.Wait(time.Minute), logger)
		h := once(once(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the handler ran") })))
		began := time.Now()
		for range 2 {
			r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/refunds", nil)
			r.Header.Set("Idempotency-Key", "k1")
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			require.False(t, requireProblem(t, w, 500, "CONFIGURATION.middleware").Retryable)
		}
		require.Contains(t, log.String(), "level=ERROR")
		require.Contains(t, log.String(), "runs twice")
		require.Zero(t, time.Since(began))
	})
}

func TestSilentHandler(t *testing.T) {
	t.Run("is 500 and an error in the log, and never runs again", func(t *testing.T) {
		log, logger := logged()
		g := newRig(t, memstore.New(), func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", "/x")
		}, logger)
		w := g.do()
		require.False(t, requireProblem(t, w, 500, "CONFIGURATION.middleware").Retryable)
		require.Empty(t, w.Header().Get("Location"))
		require.Contains(t, log.String(), "level=ERROR")
		require.Contains(t, log.String(), "without writing a response")
		for range 2 {
			requireProblem(t, g.do(), 409, "CONFLICT.idempotency.outcome_unknown")
		}
		require.Equal(t, 1, g.ran())
	})
	t.Run("that reports its effect is known to be applied", func(t *testing.T) {
		g := newRig(t, memstore.New(), after(applied, hidden))
		requireProblem(t, g.do(), 500, "CONFIGURATION.middleware")
		requireProblem(t, g.do(), 409, "CONFLICT.idempotency.result_not_stored")
	})
	t.Run("that releases its key is run again, and 500 each time", func(t *testing.T) {
		g := newRig(t, memstore.New(), after(server.Release, hidden))
		requireProblem(t, g.do(), 500, "CONFIGURATION.middleware")
		requireProblem(t, g.do(), 500, "CONFIGURATION.middleware")
	})
	t.Run("that does not know is taken over", func(t *testing.T) {
		g := newRig(t, memstore.New(), after(server.Unknown, hidden), server.TakeOver(server.Refuse()))
		requireProblem(t, g.do(), 500, "CONFIGURATION.middleware")
		requireProblem(t, g.do(), 409, "CONFLICT.idempotency.outcome_unknown")
	})
	t.Run("in a transaction is undone", func(t *testing.T) {
		b := newBook(nil)
		g := newBookRig(t, b, writing("refund", hidden))
		requireProblem(t, g.do(), 500, "CONFIGURATION.middleware")
		requireProblem(t, g.do(), 409, "CONFLICT.idempotency.outcome_unknown")
		require.Empty(t, b.committed())
	})
	t.Run("is an empty 200 where that is meant", func(t *testing.T) {
		log, logger := logged()
		g := newRig(t, memstore.New(), hidden, server.SilentOK(), logger)
		requireStored(t, g.do(), 200, "")
		requireReplayed(t, g.do(), 200, "")
		require.NotContains(t, log.String(), "level=ERROR")
	})
	for rule, run := range map[string]http.HandlerFunc{
		"a status alone":  func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(200) },
		"an empty body":   func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(nil) },
		"a flush":         func(w http.ResponseWriter, _ *http.Request) { w.(http.Flusher).Flush() },
		"an empty string": func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "") },
		"an explicit 204": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(204) },
	} {
		t.Run(rule+" is not silent", func(t *testing.T) {
			g := newRig(t, memstore.New(), run)
			require.Equal(t, "stored", g.do().Header().Get("Idempotency-Status"))
			require.Equal(t, "replayed", g.do().Header().Get("Idempotency-Status"))
		})
	}
}

// Some frameworks give the middleware's writer to the layers outside of it.
func TestOuterLayerAfterAPanic(t *testing.T) {
	serve := func(t *testing.T, run http.HandlerFunc, opts ...server.Option) *httptest.ResponseRecorder {
		t.Helper()
		var inner http.ResponseWriter
		g := newRig(t, memstore.New(), func(w http.ResponseWriter, r *http.Request) {
			inner = w
			run(w, r)
		}, opts...)
		w := httptest.NewRecorder()
		func() {
			defer func() {
				if recover() != nil {
					inner.WriteHeader(http.StatusInternalServerError)
					_, err := io.WriteString(inner, "recovered")
					require.NoError(t, err)
				}
			}()
			g.ServeHTTP(w, request(t.Context()))
		}()
		return w
	}
	t.Run("is sent to the client", func(t *testing.T) {
		w := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "3")
			panic("x")
		})
		require.Equal(t, 500, w.Code)
		require.Equal(t, "recovered", w.Body.String())
		require.Empty(t, w.Header().Get("Content-Length"), "nothing is left of the handler's response")
	})
	t.Run("is sent in place of a success that the handler wrote", func(t *testing.T) {
		w := serve(t, func(w http.ResponseWriter, r *http.Request) {
			created(w, r)
			panic("x")
		})
		require.Equal(t, 500, w.Code)
		require.Equal(t, "recovered", w.Body.String())
		require.Empty(t, w.Header().Get("Idempotency-Status"))
	})
	t.Run("follows the part that was sent already", func(t *testing.T) {
		w := serve(t, func(w http.ResponseWriter, r *http.Request) {
			answer(200, "too large, ")(w, r)
			panic("x")
		}, server.MaxResponse(3))
		require.Equal(t, 200, w.Code)
		require.Equal(t, "too large, recovered", w.Body.String())
	})
}

// The adapter of a framework tells the middleware that the framework's timeout has left the handler running.
func TestTimeoutOfAFrameworkInside(t *testing.T) {
	log, logger := logged()
	g := newRig(t, memstore.New(), func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusRequestTimeout)
		w.(interface{ Abandoned() }).Abandoned()
	}, logger)
	requireReleased(t, g.do(), 408)
	require.Contains(t, log.String(), "level=ERROR")
	require.Contains(t, log.String(), "use HandlerTimeout")
	requireProblem(t, g.do(), 409, "CONFLICT.idempotency.outcome_unknown")
	require.Equal(t, 1, g.ran())
}

func TestTimeoutHandlerInside(t *testing.T) {
	// slow is a handler that makes its effect after http.TimeoutHandler has given it up.
	slow := func(effects chan<- string) http.Handler {
		return http.TimeoutHandler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
			time.Sleep(2 * time.Second)
			effects <- "made"
		}), time.Second, "too slow")
	}
	plain := func(h http.Handler) http.Handler { return h }
	// wrapped hides io.StringWriter, and takes the response as its own.
	wrapped := func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			h.ServeHTTP(struct{ http.ResponseWriter }{w}, r)
		})
	}
	for rule, wrap := range map[string]func(http.Handler) http.Handler{
		"directly": plain, "behind another writer": wrapped,
	} {
		t.Run("a handler that it left running, "+rule+", is never run again", func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				log, logger := logged()
				effects := make(chan string, 9)
				g := newRig(t, memstore.New(), wrap(slow(effects)).ServeHTTP, logger)
				w := g.do()
				requireReleased(t, w, 503)
				require.Equal(t, "too slow", w.Body.String())
				require.Contains(t, log.String(), "level=ERROR")
				require.Contains(t, log.String(), "use HandlerTimeout")
				requireProblem(t, g.do(), 409, "CONFLICT.idempotency.outcome_unknown")
				time.Sleep(time.Hour)
				requireProblem(t, g.do(), 409, "CONFLICT.idempotency.outcome_unknown")
				require.Len(t, effects, 1)
			})
		})
		t.Run("a response in time, "+rule+", is the handler's own", func(t *testing.T) {
			for _, status := range []int{201, 503} {
				log, logger := logged()
				g := newRig(t, memstore.New(),
					wrap(http.TimeoutHandler(answer(status, "x"), time.Minute, "")).ServeHTTP, logger)
				w := g.do()
				require.Equal(t, status, w.Code)
				require.Equal(t, "x", w.Body.String())
				g.do()
				require.Equal(t, map[int]int{201: 1, 503: 2}[status], g.ran())
				require.NotContains(t, log.String(), "level=ERROR")
			}
		})
	}
	t.Run("without the store its outcome is unavailable", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			log, logger := logged()
			g := newRig(t, newFaults(failing("Complete", store.ErrLost)), slow(make(chan string, 1)).ServeHTTP, logger)
			requireProblem(t, g.do(), 503, "DEPENDENCY.unavailable")
			require.Contains(t, log.String(), "use HandlerTimeout")
			require.Contains(t, log.String(), store.ErrLost.Error())
			time.Sleep(time.Minute)
		})
	})
	t.Run("a client's end leaves the handler running too", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			g := newRig(t, memstore.New(),
				http.TimeoutHandler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
					time.Sleep(time.Minute)
				}), time.Hour, "").ServeHTTP)
			requireReleased(t, g.do(withHeader("X-Request-Timeout", "1000")), 503)
			requireProblem(t, g.do(), 409, "CONFLICT.idempotency.outcome_unknown")
			time.Sleep(time.Minute)
		})
	})
	t.Run("the handler's report stays", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			g := newRig(t, memstore.New(),
				http.TimeoutHandler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
					applied(r.Context())
					time.Sleep(time.Minute)
				}), time.Second, "x").ServeHTTP)
			requireStored(t, g.do(), 503, "x")
			requireReplayed(t, g.do(), 503, "x")
			time.Sleep(time.Minute)
		})
	})
	t.Run("a panic hides what the handler wrote", func(t *testing.T) {
		for _, writes := range []bool{true, false} {
			log, logger := logged()
			g := newRig(t, memstore.New(),
				http.TimeoutHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if writes {
						created(w, r)
					}
					panic("after the effect")
				}), time.Minute, "").ServeHTTP, logger)
			require.PanicsWithValue(t, "after the effect", func() { g.do() })
			require.Contains(t, log.String(), "use HandlerTimeout")
			requireProblem(t, g.do(), 409, "CONFLICT.idempotency.outcome_unknown")
			require.Equal(t, 1, g.ran())
		}
	})
	t.Run("a panic inside one that is outside of the middleware is as any other", func(t *testing.T) {
		panics := true
		g := newRig(t, memstore.New(), func(w http.ResponseWriter, r *http.Request) {
			if panics {
				panics = false
				panic("before the effect")
			}
			created(w, r)
		})
		g.Handler = http.TimeoutHandler(g.Handler, time.Minute, "")
		require.PanicsWithValue(t, "before the effect", func() { g.do() })
		requireStored(t, g.do(), 201, `{"id":"rf_123"}`)
	})
	t.Run("outside of the middleware it is harmless", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			g := newRig(t, memstore.New(), func(w http.ResponseWriter, r *http.Request) {
				time.Sleep(2 * time.Second)
				created(w, r)
			})
			inner := g.Handler
			g.Handler = http.TimeoutHandler(inner, time.Second, "")
			require.Equal(t, 503, g.do().Code)
			time.Sleep(2 * time.Second)
			g.Handler = inner
			requireReplayed(t, g.do(), 201, `{"id":"rf_123"}`)
		})
	})
}
