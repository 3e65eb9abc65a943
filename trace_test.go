package redo_test

import (
	"io"
	"net"
	"net/http"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo"
	"github.com/redo-go/redo/servertest"
	"github.com/redo-go/redo/taxonomy"
)

// A transport with a registered protocol hands requests to another transport, and reports no connection of it.
// That is no evidence that nothing was sent.
func TestRegisteredProtocolIsNotTrustedToReportItsConnections(t *testing.T) {
	for _, c := range []struct {
		name   string
		err    error
		keyed  int // attempts
		effect redo.Effect
	}{
		{"a connection that broke", syscall.ECONNRESET, 2, redo.EffectUnknown},
		{"a response that never came", io.EOF, 2, redo.EffectUnknown},
	} {
		t.Run(c.name, func(t *testing.T) {
			effects := 0
			base := fresh(t)
			base.RegisterProtocol("http", tripper(func(*http.Request) (*http.Response, error) {
				effects++
				return nil, c.err
			}))
			e := fail(t, connect(t, base, quick, redo.WithKeys(nil)), post(t, t.Context(), "http://api.test/", payment))
			require.Equal(t, 1, effects, "a POST without a key is sent once")
			require.ErrorIs(t, e, redo.ErrKeyless)
			require.Equal(t, c.effect, e.Effect)
			require.Equal(t, 1, e.Attempts[0].WireSends)
			require.False(t, redo.SafeToRetry(e))

			effects = 0
			e = fail(t, connect(t, base, quick), post(t, t.Context(), "http://api.test/", payment))
			require.Equal(t, c.keyed, effects, "and one with a key is retried")
			require.Equal(t, c.effect, e.Effect)
		})
	}
	t.Run("only its error of a dial shows that nothing was sent", func(t *testing.T) {
		base := fresh(t)
		base.RegisterProtocol("http", tripper(func(*http.Request) (*http.Response, error) {
			return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
		}))
		e := fail(t, connect(t, base, quick, redo.WithKeys(nil)), post(t, t.Context(), "http://api.test/", payment))
		require.Len(t, e.Attempts, 2)
		require.Equal(t, redo.NotApplied, e.Effect)
	})
}

func TestRefusedSocketOfAPlainTransportIsNotApplied(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	url := "http://" + l.Addr().String()
	require.NoError(t, l.Close())
	e := fail(t, connect(t, fresh(t), quick, redo.WithKeys(nil)), post(t, t.Context(), url, payment))
	require.Equal(t, taxonomy.Unavailable, e.Code)
	require.Equal(t, redo.NotApplied, e.Effect)
	require.Len(t, e.Attempts, 2, "a POST without a key that was not written may be repeated")
	require.Zero(t, e.Attempts[0].WireSends)
	require.True(t, redo.SafeToRetry(e))
}

func TestResetSocketOfAPlainTransportIsUnknown(t *testing.T) {
	srv := servertest.New(t, servertest.Script("", servertest.ResetAfterEffect()))
	e := fail(t, connect(t, fresh(t), quick, redo.WithKeys(nil)), post(t, t.Context(), srv.URL, payment))
	require.ErrorIs(t, e, redo.ErrKeyless)
	require.Equal(t, redo.EffectUnknown, e.Effect)
	require.Equal(t, 1, srv.Ledger().Total())
}
