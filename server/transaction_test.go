package server_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
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

// Every row of the table in Transactional's documentation.
func TestTransactionOutcomes(t *testing.T) {
	const commit, discard, rollback = "Commit", "Discard", "Rollback"
	all := []server.Option{keepServerErrors()}
	for _, c := range []struct {
		rule   string
		run    http.HandlerFunc
		opts   []server.Option
		status int
		end    string
	}{
		{"a 2xx commits", answer(201, "x"), nil, 201, commit},
		{"a 3xx commits", answer(303, "x"), nil, 303, commit},
		{"a 307 rolls back", answer(307, "x"), nil, 307, rollback},
		{"a 308 rolls back", answer(308, "x"), nil, 308, rollback},
		{"a terminal 4xx undoes and is recorded", answer(422, "x"), nil, 422, discard},
		{"a 408 rolls back", answer(408, "x"), nil, 408, rollback},
		{"a 425 rolls back", answer(425, "x"), nil, 425, rollback},
		{"a 429 rolls back", answer(429, "x"), nil, 429, rollback},
		{"a 500 rolls back", answer(500, "x"), nil, 500, rollback},
		{"a 503 rolls back", answer(503, "x"), nil, 503, rollback},
		{"a 500 undoes and is recorded by choice", answer(500, "x"), all, 500, discard},
		{"a 429 rolls back also then", answer(429, "x"), all, 429, rollback},
		{"a 200 after Release rolls back", after(server.Release, answer(200, "x")), nil, 200, rollback},
		{"a 422 after Release rolls back", after(server.Release, answer(422, "x")), nil, 422, rollback},
		{"a 200 after Fail undoes and is recorded", after(server.Fail, answer(200, "x")), nil, 200, discard},
		{"a 500 after Fail undoes and is recorded", after(server.Fail, answer(500, "x")), nil, 500, discard},
		{"a 200 after Applied commits", after(applied, answer(200, "x")), nil, 200, commit},
		{"a 307 after Applied commits", after(applied, answer(307, "x")), nil, 307, commit},
		{"a 422 after Applied commits", after(applied, answer(422, "x")), nil, 422, commit},
		{"a 429 after Applied commits", after(applied, answer(429, "x")), nil, 429, commit},
		{"a 500 after Applied commits", after(applied, answer(500, "x")), nil, 500, commit},
		{
			"Release does nothing after Applied", after(applied, after(server.Release, answer(500, "x"))), nil, 500,
			commit,
		},
		{"Fail undoes after Applied", after(applied, after(server.Fail, answer(200, "x"))), nil, 200, discard},
		{"Store keeps after Fail", after(server.Fail, after(applied, answer(200, "x"))), nil, 200, commit},
	} {
		t.Run(c.rule, func(t *testing.T) {
			b := newBook(nil)
			var seen recorder
			g := newBookRig(t, b, writing("refund", c.run), append(c.opts, server.Observe(&seen))...)
			first, second := g.do(), g.do()
			var lines []string
			if c.end == commit {
				lines = []string{"refund"}
			}
			require.Equal(t, lines, b.committed())
			_, err := b.Find(t.Context(), refundID)
			if c.end == rollback {
				requireReleased(t, first, c.status)
				requireReleased(t, second, c.status)
				require.Equal(t, "x", first.Body.String())
				require.ErrorIs(t, err, store.ErrNotFound)
				require.Equal(t, 2, g.ran())
				require.Equal(t, []string{"Begin", c.end, "Begin", c.end}, seen.methods())
				return
			}
			requireStored(t, first, c.status, "x")
			requireReplayed(t, second, c.status, "x")
			require.NoError(t, err)
			require.Equal(t, 1, g.ran())
			require.Equal(t, []string{"Begin", c.end, "Begin"}, seen.methods())
		})
	}
	t.Run("a handler whose time is over and that reports nothing is rolled back, and 504", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := newBook(nil)
			g := newBookRig(t, b, writing("refund", func(_ http.ResponseWriter, r *http.Request) {
				<-r.Context().Done()
				require.ErrorIs(t, r.Context().Err(), context.DeadlineExceeded)
			}), server.HandlerTimeout(20*time.Second))
			for range 2 {
				start := time.Now()
				require.True(t, requireProblem(t, g.do(), 504, "DEPENDENCY.timeout").Retryable)
				require.Equal(t, 20*time.Second, time.Since(start))
			}
			require.Equal(t, 2, b.count("Rollback"))
			require.Empty(t, b.committed())
		})
	})
	t.Run("the record and the writes are committed before the client sees a byte", func(t *testing.T) {
		b := newBook(nil)
		g := newBookRig(t, b, writing("refund", created))
		w := &orderedWriter{sink: sink{header: http.Header{}}, onHeader: func() {
			rec, err := b.Find(t.Context(), refundID)
			require.NoError(t, err)
			require.Equal(t, store.StateComplete, rec.State)
			require.Equal(t, []string{"refund"}, b.committed())
		}}
		g.ServeHTTP(w, request(t.Context()))
		require.Equal(t, 201, w.status)
	})
	t.Run("a payload mismatch is refused", func(t *testing.T) {
		b := newBook(nil)
		g := newBookRig(t, b, writing("refund", created))
		g.do()
		requireProblem(t, g.do(withBody("other")), 409, "CONFLICT.idempotency.payload_mismatch")
		require.Equal(t, []string{"refund"}, b.committed())
	})
}

func TestTransactionPanic(t *testing.T) {
	boom := errors.New("boom")
	ends := map[string]http.HandlerFunc{
		"a panic":         func(http.ResponseWriter, *http.Request) { panic(boom) },
		"ErrAbortHandler": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"Goexit":          func(http.ResponseWriter, *http.Request) { runtime.Goexit() },
	}
	for rule, end := range ends {
		// begin serves a request that does not return, and returns its panic.
		begin := func(g *rig) (v any) {
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				defer func() { v = recover() }()
				g.do()
			}()
			<-ended
			return v
		}
		want := map[string]any{"a panic": boom, "ErrAbortHandler": http.ErrAbortHandler}[rule]
		t.Run(rule+" rolls back and goes on", func(t *testing.T) {
			b := newBook(nil)
			g := newBookRig(t, b, writing("refund", end))
			for range 2 {
				require.Equal(t, want, begin(g))
			}
			require.Equal(t, 2, g.ran())
			require.Equal(t, 2, b.count("Rollback"))
			require.Empty(t, b.committed())
		})
		t.Run(rule+" after Applied commits no half-made writes and never runs the handler again", func(t *testing.T) {
			b := newBook(nil)
			g := newBookRig(t, b, writing("half", after(applied, end)))
			require.Equal(t, want, begin(g))
			requireProblem(t, g.do(), 409, "CONFLICT.idempotency.outcome_unknown")
			require.Equal(t, 1, g.ran())
			require.Equal(t, 1, b.count("Discard"))
			require.Empty(t, b.committed())
		})
	}
	t.Run("of an observer leaves no transaction open", func(t *testing.T) {
		b := newBook(nil)
		g := newBookRig(t, b, writing("refund", created), server.Observe(panicking{"Begin"}))
		require.Panics(t, func() { g.do() })
		require.Equal(t, 1, b.count("Rollback"))
	})
}

// panicking is an observer that can't bear one method.
type panicking struct{ method string }

func (panicking) ObserveRequest(context.Context, server.Event) {}
func (p panicking) ObserveStore(_ context.Context, s server.StoreCall) {
	if s.Method == p.method {
		panic(p.method)
	}
}

func TestTransactionalOptions(t *testing.T) {
	t.Run("a store without transactions is refused by name", func(t *testing.T) {
		_, err := server.New(memstore.New(), server.SharedKeys(), server.Transactional[*pen](), server.MaxBody(-1))
		require.EqualError(t, err,
			"server: option Transactional: the store, a *memstore.Store, has no transactions of type "+
				"*server_test.pen; a sealed store needs store.SealedTx\n"+
				"server: option MaxBody: -1 is negative")
	})
	t.Run("so is one whose transactions are of another type", func(t *testing.T) {
		_, err := server.New(newBook(nil), server.SharedKeys(), server.Transactional[http.Handler]())
		require.EqualError(t, err,
			"server: option Transactional: the store, a *server_test.book, has no transactions of type http.Handler; "+
				"a sealed store needs store.SealedTx")
	})
	t.Run("no store at all is one error", func(t *testing.T) {
		_, err := server.New(nil, server.SharedKeys(), server.Transactional[*pen]())
		require.EqualError(t, err, "server: the store must not be nil")
	})
	t.Run("it does not go together with FailOpen", func(t *testing.T) {
		_, err := server.New(newBook(nil), server.SharedKeys(), server.Transactional[*pen](), server.FailOpen())
		require.ErrorContains(t, err, "server: option Transactional: it does not go together with FailOpen")
	})
	t.Run("the lease has no meaning, so that it need not fit the retention", func(t *testing.T) {
		_, err := server.New(newBook(nil), server.SharedKeys(), server.Transactional[*pen](),
			server.Retention(time.Second))
		require.NoError(t, err)
	})
	t.Run("a store that is down is 503, and nothing runs", func(t *testing.T) {
		g := newBookRig(t, newBook(failing("Begin", store.ErrUnavailable)), nil)
		requireProblem(t, g.do(), 503, "DEPENDENCY.unavailable")
		require.Zero(t, g.ran())
	})
	t.Run("a store that breaks its contract and gives no transaction is 503, and nothing runs", func(t *testing.T) {
		g := newRig(t, &penless{newBook(nil)}, nil, server.Transactional[*pen]())
		requireProblem(t, g.do(), 503, "DEPENDENCY.unavailable")
		require.Zero(t, g.ran())
	})
}

type penless struct{ *book }

func (*penless) Begin(context.Context, store.Claim) (store.Tx[*pen], store.Grant, error) {
	return nil, store.Grant{Verdict: store.Acquired}, nil
}

func TestTransactionHoldsTheResponse(t *testing.T) {
	big := strings.Repeat("x", 100)
	t.Run("whole until the commit, also a response that is too large to be stored", func(t *testing.T) {
		b := newBook(nil)
		g := newBookRig(t, b, writing("refund", func(w http.ResponseWriter, _ *http.Request) {
			for range 10 {
				_, err := w.Write([]byte(big))
				require.NoError(t, err)
				require.NoError(t, http.NewResponseController(w).Flush())
			}
		}), server.MaxResponse(99))
		w := &heldWriter{ResponseRecorder: httptest.NewRecorder(), first: func() {
			require.Equal(t, []string{"refund"}, b.committed())
		}}
		g.ServeHTTP(w, request(t.Context()))
		require.Equal(t, strings.Repeat(big, 10), w.Body.String())
		require.Empty(t, w.Header().Get("Idempotency-Status"), "it is not stored")
		require.Zero(t, w.flushes)
		requireProblem(t, g.do(), 409, "CONFLICT.idempotency.result_not_stored")
		require.Equal(t, 1, g.ran())
	})
	t.Run("and it is stored at the limit", func(t *testing.T) {
		g := newBookRig(t, newBook(nil), answer(200, big), server.MaxResponse(100))
		requireStored(t, g.do(), 200, big)
		requireReplayed(t, g.do(), 200, big)
	})
	t.Run("and sends it to no client when the commit fails", func(t *testing.T) {
		g := newBookRig(t, newBook(failing("Commit", store.ErrUnavailable)), answer(200, big), server.MaxResponse(10))
		requireProblem(t, g.do(), 503, "DEPENDENCY.unavailable")
	})
	t.Run("and passes on one that requests a retry", func(t *testing.T) {
		g := newBookRig(t, newBook(nil), answer(503, big), server.MaxResponse(10))
		for range 2 {
			w := g.do()
			requireReleased(t, w, 503)
			require.Equal(t, big, w.Body.String())
		}
	})
}

// heldWriter calls first when the response begins, and counts the flushes.
type heldWriter struct {
	*httptest.ResponseRecorder
	first   func()
	flushes int
}

func (w *heldWriter) WriteHeader(status int) { w.first(); w.ResponseRecorder.WriteHeader(status) }
func (w *heldWriter) Flush()                 { w.flushes++ }
