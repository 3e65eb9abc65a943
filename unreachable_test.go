package redo_test

import (
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo"
	"github.com/redo-go/redo/servertest"
	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/taxonomy"
)

// If a transport does not report its connections, the client believes only an error that names a failed dial or
// lookup.
func TestWhatATransportsErrorSaysOfTheEffect(t *testing.T) {
	for _, c := range []struct {
		name    string
		err     error
		code    taxonomy.Code
		effect  redo.Effect
		keyed   int // attempts of a request with a key
		keyless int // attempts of a POST without one
		state   store.State
	}{
		{
			"no connection was made", &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}, taxonomy.Unavailable,
			redo.NotApplied, 5, 5, store.StatePending,
		},
		{
			"the host is unknown", &net.DNSError{IsNotFound: true}, taxonomy.UnknownHost, redo.NotApplied, 1, 1,
			store.StateFailed,
		},
		{
			"the resolver failed", &net.DNSError{IsTemporary: true}, taxonomy.Unavailable, redo.NotApplied, 5, 5,
			store.StatePending,
		},
		{
			"a connection broke", &net.OpError{Op: "read", Err: syscall.ECONNRESET}, taxonomy.Reset,
			redo.EffectUnknown, 5, 1, store.StatePending,
		},
		{
			"the response broke off", io.ErrUnexpectedEOF, taxonomy.Truncated, redo.EffectUnknown, 5, 1,
			store.StatePending,
		},
		{"no response came", io.EOF, taxonomy.EOF, redo.EffectUnknown, 5, 1, store.StatePending},
		{
			"an unknown error", errors.New("lost"), taxonomy.Connection, redo.EffectUnknown, 5, 1,
			store.StatePending,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st := openStore(t)
				broken := tripper(func(*http.Request) (*http.Response, error) { return nil, c.err })
				e := fail(t, connect(t, broken, redo.WithStore(st)),
					post(t, redo.WithOperation(t.Context(), "op"), "http://api.test/", payment))
				require.ErrorIs(t, e, c.err)
				require.Equal(t, []any{c.code, c.effect, c.keyed}, []any{e.Code, e.Effect, len(e.Attempts)})
				require.Equal(t, c.state, record(t, st, "op").State)

				e = fail(t, connect(t, broken, redo.WithKeys(nil)), post(t, t.Context(), "http://api.test/", payment))
				require.Equal(t, []any{c.code, c.effect, c.keyless}, []any{e.Code, e.Effect, len(e.Attempts)})
			})
		})
	}
}

func TestCertificateThatIsNotTrustedIsNotRetried(t *testing.T) {
	srv := httptest.NewUnstartedServer(http.NotFoundHandler())
	srv.Config.ErrorLog = log.New(io.Discard, "", 0)
	srv.StartTLS()
	defer srv.Close()
	client, err := redo.New()
	require.NoError(t, err)
	defer func() { require.NoError(t, client.Close()) }()
	e := fail(t, client, post(t, t.Context(), srv.URL, payment))
	require.Equal(t, taxonomy.TLS, e.Code)
	require.Equal(t, redo.NotApplied, e.Effect)
	require.Len(t, e.Attempts, 1)
	require.False(t, redo.SafeToRetry(e))
}

func TestRefusedSocketIsRetriedAndWasNotApplied(t *testing.T) {
	srv := servertest.New(t)
	srv.Close()
	client, err := redo.New(redo.WithKeys(nil), redo.WithRetry(redo.RetryPolicy{MaxAttempts: 3, Jitter: redo.NoDelay}))
	require.NoError(t, err)
	defer func() { require.NoError(t, client.Close()) }()
	e := fail(t, client, post(t, t.Context(), srv.URL, payment))
	require.Equal(t, taxonomy.Unavailable, e.Code)
	require.ErrorContains(t, e, "refused") // Windows has an error of its own
	require.Equal(t, redo.NotApplied, e.Effect)
	require.Len(t, e.Attempts, 3, "nothing was written, so that it needs no key")
}

func TestNothingIsWrittenToStderr(t *testing.T) {
	path := filepath.Join(t.TempDir(), "stderr")
	file, err := os.Create(path)
	require.NoError(t, err)
	before := os.Stderr
	os.Stderr = file
	synctest.Test(t, func(t *testing.T) {
		srv := servertest.NewInMemory(t, servertest.ScriptNext(servertest.Status(503)))
		succeed(t, connect(t, srv.Transport()), post(t, t.Context(), srv.URL, payment))
	})
	os.Stderr = before
	require.NoError(t, file.Close())
	written, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Empty(t, written)
}
