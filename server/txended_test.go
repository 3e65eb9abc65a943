package server_test

import (
	"bytes"
	"log/slog"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.etcd.io/bbolt"

	"github.com/redo-go/redo/server"
	"github.com/redo-go/redo/store"
)

// ending ends the transaction by itself, as no handler must, and then runs next.
func ending(end func(*bbolt.Tx) error, next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		tx, _ := server.Tx[*bbolt.Tx](r.Context())
		if err := end(tx); err != nil {
			panic(err)
		}
		next(w, r)
	}
}

// No client is told that nothing was done when something was, and nothing is done twice.
func TestHandlerThatCommitsItself(t *testing.T) {
	const panics = 0
	crash := func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }
	for _, c := range []struct {
		rule  string
		run   http.HandlerFunc
		first int
		again int // the status of the replay; zero: nobody knows
	}{
		{"and succeeds has succeeded", created, 201, 201},
		{"and redirects has succeeded", answer(303, "x"), 303, 303},
		{"and says that its effect is made has made it", after(server.Store, answer(500, "x")), 500, 500},
		{"and refuses has not refused", answer(422, "x"), 503, 0},
		{"and fails has not failed", after(server.Fail, answer(200, "x")), 503, 0},
		{"and asks for a retry gets none", answer(429, "x"), 503, 0},
		{"and ends in an error is not run again", answer(500, "x"), 503, 0},
		{"and releases the key does not release it", after(server.Release, answer(200, "x")), 503, 0},
		{"and releases the key with a refusal does not refuse", after(server.Release, answer(422, "x")), 503, 0},
		{"and says nothing when its time is over is not run again", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, 503, 0},
		{"and panics is not run again", crash, panics, 0},
		{"and panics after its effect is not run again", after(server.Store, crash), panics, 0},
	} {
		t.Run(c.rule, func(t *testing.T) {
			var log bytes.Buffer
			var seen recorder
			b := newBank(t, nil, ending((*bbolt.Tx).Commit, c.run), server.HandlerTimeout(20*time.Millisecond),
				server.Logger(slog.New(slog.NewTextHandler(&log, nil))), server.Observe(&seen))
			if c.first == panics {
				require.Panics(t, func() { b.do() })
			} else {
				w := b.do()
				require.Equal(t, c.first, w.Code)
				if c.again == 0 {
					require.NotContains(t, requireProblem(t, w, 503, "DEPENDENCY.unavailable").Detail, "Nothing was done")
				}
			}
			require.Equal(t, c.again != 0, slices.Contains(seen.methods(), "Find"), "only a success may be confirmed by its record")
			require.Contains(t, log.String(), "level=ERROR")
			require.Contains(t, log.String(), store.ErrTxEnded.Error())
			for range 2 {
				if w := b.do(); c.again == 0 {
					requireProblem(t, w, 409, "CONFLICT.idempotency.outcome_unknown")
				} else {
					require.Equal(t, c.again, w.Code)
					require.Equal(t, "replayed", w.Header().Get("Idempotency-Status"))
				}
			}
			require.Equal(t, 1, b.effects())
			require.Equal(t, 1, b.ran())
		})
	}
}

func TestHandlerThatRollsBackItself(t *testing.T) {
	for _, c := range []struct {
		rule  string
		run   http.HandlerFunc
		first int
		ran   int // in two requests
	}{
		{"and succeeds has not succeeded", created, 503, 2},
		{"and says that its effect is made has not made it", after(server.Store, answer(422, "x")), 503, 2},
		{"and refuses has refused", answer(422, "x"), 422, 1},
		{"and ends in an error is run again", answer(500, "x"), 500, 2},
	} {
		t.Run(c.rule, func(t *testing.T) {
			b := newBank(t, nil, ending((*bbolt.Tx).Rollback, c.run))
			for range 2 {
				w := b.do()
				require.Equal(t, c.first, w.Code)
				if c.first == 503 {
					require.Contains(t, requireProblem(t, w, 503, "DEPENDENCY.unavailable").Detail, "Nothing was done")
				}
			}
			require.Zero(t, b.effects())
			require.Equal(t, c.ran, b.ran())
		})
	}
}

// A handler that comes back to its own route must not wait for itself.
func TestHandlerThatAsksForAKeyItself(t *testing.T) {
	for _, c := range []struct {
		rule, key, code string
		status          int
		opts            []server.Option
	}{
		{"its own is in flight at once", "k1", "CONFLICT.idempotency.in_flight", 409, nil},
		{"its own with another payload is a mismatch at once", "k1", "CONFLICT.idempotency.payload_mismatch", 409, nil},
		{"another waits for the single writer as long as the store may take", "k2", "DEPENDENCY.unavailable", 503, []server.Option{server.StoreTimeout(time.Second)}},
	} {
		t.Run(c.rule, func(t *testing.T) {
			var b *bank
			inner := 0
			b = newBank(t, nil, func(w http.ResponseWriter, r *http.Request) {
				body := `{"amount":1000}`
				if c.code == "CONFLICT.idempotency.payload_mismatch" {
					body = "another"
				}
				if inner++; inner == 1 {
					requireProblem(t, b.do(withKey(c.key), withBody(body)), c.status, c.code)
				}
				created(w, r)
			}, c.opts...)
			requireStored(t, b.do(withKey("k1")), 201, `{"id":"rf_123"}`)
			require.Equal(t, 1, b.effects())
			require.Equal(t, 1, b.ran())
		})
	}
}
