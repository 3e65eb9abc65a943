package redo_test

import (
	"context"
	"net"
	"net/http"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo"
	"github.com/redo-go/redo/servertest"
	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/memstore"
	"github.com/redo-go/redo/taxonomy"
)

// If an operation is known not to be applied, the next call knows it as well, also after a restart.
func TestWhatIsKnownNotToBeAppliedStaysKnown(t *testing.T) {
	once := redo.WithRetry(redo.RetryPolicy{MaxAttempts: 1})
	for name, c := range map[string]struct {
		first, then servertest.Fault
		effect      redo.Effect
		state       store.State
	}{
		"refused credentials, then a refusal": {
			servertest.Status(401), servertest.Status(422), redo.NotApplied, store.StateFailed,
		},
		"a rate limit, then a refusal": {
			servertest.RateLimited(), servertest.Status(422), redo.NotApplied, store.StateFailed,
		},
		"a rate limit, then a lost response": {
			servertest.RateLimited(), servertest.Status(503), redo.EffectUnknown, store.StatePending,
		},
		"a lost response, then a refusal": {
			servertest.Status(503), servertest.Status(422), redo.EffectUnknown, store.StatePending,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := servertest.NewInMemory(t, servertest.ScriptNext(c.first, c.then))
				st := openStore(t)
				fail(t, connect(t, srv.Transport(), redo.WithStore(st), once), named(t, srv, "op", payment))
				e := fail(t, connect(t, srv.Transport(), redo.WithStore(st), once), named(t, srv, "op", payment))
				require.Equal(t, c.effect, e.Effect)
				require.Equal(t, c.state, record(t, st, "op").State)
				require.Equal(t, keys(srv)[0], keys(srv)[1], "one operation, one key")
			})
		})
	}
}

// CONTRACT: a new key is never made because of a token refresh.
func TestATokenRefreshKeepsTheKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := servertest.NewInMemory(t,
			servertest.ScriptNext(servertest.Status(http.StatusUnauthorized), servertest.OK()))
		token := "stale"
		c := connect(t, srv.Transport(), redo.WithStore(openStore(t)),
			redo.WithCredentials(func(r *http.Request) error {
				r.Header.Set("Authorization", "Bearer "+token)
				return nil
			}))
		require.Equal(t, taxonomy.Unauthenticated, fail(t, c, named(t, srv, "op", payment)).Code)
		token = "fresh"
		succeed(t, c, named(t, srv, "op", payment))
		require.Equal(t, keys(srv)[0], keys(srv)[1])
		require.Equal(t, "Bearer fresh", srv.Requests()[1].Header.Get("Authorization"))
	})
}

// A caller who gave up before anything was sent leaves the operation pending, under its key.
func TestACallerWhoGaveUpLeavesTheOperationPending(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := openStore(t)
		ctx, cancel := context.WithCancel(t.Context())
		c := connect(t, tripper(func(*http.Request) (*http.Response, error) {
			cancel()
			return nil, context.Canceled
		}), redo.WithStore(st))
		e := fail(t, c, post(t, redo.WithOperation(ctx, "op"), "http://api.test/", payment))
		require.Equal(t, taxonomy.CallerCanceled, e.Code)
		require.Equal(t, store.StatePending, record(t, st, "op").State)
	})
}

// The note is taken off the record before the first byte of the next attempt: a crash then finds "unknown".
func TestTheNoteIsTakenOffBeforeAnythingIsSent(t *testing.T) {
	st := memstore.New()
	t.Cleanup(func() { require.NoError(t, st.Close()) })
	once := redo.WithRetry(redo.RetryPolicy{MaxAttempts: 1})
	refuse := connect(t, tripper(func(*http.Request) (*http.Response, error) {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	}), redo.WithStore(st), once)
	req := func() *http.Request {
		return post(t, redo.WithOperation(t.Context(), "op"), "http://api.test/", payment)
	}
	fail(t, refuse, req())
	noted := string(record(t, st, "op").Meta)

	var during string
	c := connect(t, tripper(func(*http.Request) (*http.Response, error) {
		during = string(record(t, st, "op").Meta)
		return nil, syscall.ECONNRESET
	}), redo.WithStore(st), once)
	require.Equal(t, redo.EffectUnknown, fail(t, c, req()).Effect)
	require.NotContains(t, during, `"unapplied"`)
	require.NotContains(t, string(record(t, st, "op").Meta), `"unapplied"`)
	require.Contains(t, noted, `"unapplied":true`, "a refused connection is known not to have reached the server")
}
