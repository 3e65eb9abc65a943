package server_test

import (
	"bytes"
	"log/slog"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/server"
	"github.com/redo-go/redo/store"
)

// ending ends the transaction itself, as no handler must, and then runs next.
func ending(commit bool, next http.HandlerFunc) http.HandlerFunc {
	return writing("refund", func(w http.ResponseWriter, r *http.Request) {
		tx, _ := server.Tx[*pen](r.Context())
		tx.End(commit)
		next(w, r)
	})
}

// Record and effect were not one transaction. No client learns their outcome, and nothing is done twice.
func TestHandlerThatEndsItsTransaction(t *testing.T) {
	const panics = 0
	crash := func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }
	for _, c := range []struct {
		rule  string
		run   http.HandlerFunc
		first int
	}{
		{"and succeeds", created, 503},
		{"and reports its effect", after(applied, answer(500, "x")), 503},
		{"and refuses", answer(422, "x"), 503},
		{"and fails", after(server.Fail, answer(200, "x")), 503},
		{"and requests a retry", answer(429, "x"), 503},
		{"and ends in an error", answer(500, "x"), 503},
		{"and releases the key", after(server.Release, answer(200, "x")), 503},
		{"and does not know its effect", after(server.Unknown, answer(200, "x")), 503},
		{"and writes nothing", func(http.ResponseWriter, *http.Request) {}, 503},
		{
			"and writes nothing when its time has ended",
			func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, 503,
		},
		{"and panics", crash, panics},
		{"and panics after its effect", after(applied, crash), panics},
	} {
		for _, commit := range []bool{true, false} {
			t.Run(map[bool]string{true: "by a commit ", false: "by a rollback "}[commit]+c.rule, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var log bytes.Buffer
					b := newBook(nil)
					g := newBookRig(t, b, ending(commit, c.run), server.HandlerTimeout(time.Second),
						server.Logger(slog.New(slog.NewTextHandler(&log, nil))))
					if c.first == panics {
						require.Panics(t, func() { g.do() })
					} else {
						require.NotContains(t, requireProblem(t, g.do(), 503, "DEPENDENCY.unavailable").Detail,
							"Nothing was done")
					}
					require.Contains(t, log.String(), "level=ERROR")
					require.Contains(t, log.String(), store.ErrTxEnded.Error())
					require.Zero(t, b.count("Find"), "the record is not this request's")
					for range 2 {
						requireProblem(t, g.do(), 409, "CONFLICT.idempotency.outcome_unknown")
					}
					require.Equal(t, 1, g.ran())
					require.Len(t, b.committed(), map[bool]int{true: 1}[commit])
				})
			})
		}
	}
}

// A rollback that was refused still means that nothing may be committed. Nothing was done, and the retry runs.
func TestHandlerWhoseRollbackIsRefused(t *testing.T) {
	for _, status := range []int{201, 422} {
		log, logger := logged()
		b := newBook(nil)
		g := newBookRig(t, b, writing("refund", func(w http.ResponseWriter, r *http.Request) {
			tx, _ := server.Tx[*pen](r.Context())
			require.ErrorIs(t, tx.Rollback(), store.ErrTxEnded)
			w.WriteHeader(status)
		}), logger)
		for range 2 {
			require.Contains(t, requireProblem(t, g.do(), 503, "DEPENDENCY.unavailable").Detail, "Nothing was done")
		}
		require.Contains(t, log.String(), "level=ERROR")
		require.Empty(t, b.committed())
		require.Equal(t, 2, g.ran())
	}
}

// The log shows the fault in the program also if no response names it.
func TestAPanicAfterARefusedRollbackIsLoggedAsAnError(t *testing.T) {
	log, logger := logged()
	b := newBook(nil)
	g := newBookRig(t, b, func(w http.ResponseWriter, r *http.Request) {
		tx, _ := server.Tx[*pen](r.Context())
		require.ErrorIs(t, tx.Rollback(), store.ErrTxEnded)
		after(applied, func(http.ResponseWriter, *http.Request) { panic("no reason") })(w, r)
	}, logger)
	require.Panics(t, func() { g.do() })
	require.Contains(t, log.String(), "level=ERROR")
	require.Contains(t, log.String(), store.ErrTxEnded.Error())
}

// A handler that comes back to its own route must not wait for itself.
func TestHandlerThatAsksForAKeyItself(t *testing.T) {
	for _, c := range []struct {
		rule, key, code string
		status          int
		opts            []server.Option
	}{
		{"its own is in flight immediately", "k1", "CONFLICT.idempotency.in_flight", 409, nil},
		{
			"another waits for the single writer as long as the store may take", "k2", "DEPENDENCY.unavailable", 503,
			[]server.Option{server.StoreTimeout(time.Second)},
		},
	} {
		t.Run(c.rule, func(t *testing.T) {
			var b *bank
			inner := 0
			b = newBank(t, nil, func(w http.ResponseWriter, r *http.Request) {
				if inner++; inner == 1 {
					requireProblem(t, b.do(withKey(c.key)), c.status, c.code)
				}
				created(w, r)
			}, c.opts...)
			requireStored(t, b.do(withKey("k1")), 201, `{"id":"rf_123"}`)
			require.Equal(t, 1, b.effects())
			require.Equal(t, 1, b.ran())
		})
	}
}
