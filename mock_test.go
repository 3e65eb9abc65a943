package redo_test

import (
	"errors"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jarcoal/httpmock"
	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo"
	"github.com/redo-go/redo/taxonomy"
)

// A mock transport knows nothing of net/http/httptrace, like many a transport that users bring along. The client
// therefore assumes that the request was sent.
func TestATransportWithoutTracesIsAssumedToHaveSent(t *testing.T) {
	refused := &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	for _, c := range []struct {
		name   string
		err    error
		effect redo.Effect
		sends  int
		code   taxonomy.Code
	}{
		{"a dial error proves that nothing was sent", refused, redo.NotApplied, 0, taxonomy.Unavailable},
		{
			"an unknown host proves it too", &net.DNSError{Err: "no such host", IsNotFound: true}, redo.NotApplied, 0,
			taxonomy.UnknownHost,
		},
		{"any other error may have come after the effect", syscall.ECONNRESET, redo.EffectUnknown, 1, taxonomy.Reset},
		{
			"an error of an unknown kind too", errors.New("the carrier pigeon is late"), redo.EffectUnknown, 1,
			taxonomy.Connection,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			mock := httpmock.NewMockTransport()
			mock.RegisterResponder("POST", "https://api.test/refunds", httpmock.NewErrorResponder(c.err))
			client, err := redo.New(redo.WithTransport(mock), redo.WithRetry(redo.RetryPolicy{MaxAttempts: 1}))
			require.NoError(t, err)
			_, err = client.Do(request(t, "POST", "https://api.test/refunds", "{}"))
			var e *redo.Error
			require.ErrorAs(t, err, &e)
			require.Equal(t, c.code, e.Code)
			require.Equal(t, c.effect, e.Effect)
			require.Equal(t, c.sends, e.Attempts[0].WireSends)
			require.ErrorIs(t, err, c.err)
		})
	}
}

func TestAMockedSequenceIsRetriedUnderOneKey(t *testing.T) {
	mock := httpmock.NewMockTransport()
	var keys []string
	answers := httpmock.NewStringResponder(http.StatusBadGateway,
		"").Then(httpmock.NewStringResponder(http.StatusCreated, `{"id":"rf_1"}`))
	mock.RegisterResponder("POST", "https://api.test/refunds", func(r *http.Request) (*http.Response, error) {
		keys = append(keys, r.Header.Get("Idempotency-Key"))
		return answers(r)
	})
	client, err := redo.New(redo.WithTransport(mock), redo.WithRetry(redo.RetryPolicy{BaseDelay: time.Millisecond}))
	require.NoError(t, err)
	resp, err := client.Do(request(t, "POST", "https://api.test/refunds", "{}"))
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Len(t, keys, 2)
	require.Equal(t, keys[0], keys[1])
	require.Equal(t, keys[0], redo.KeyOf(resp))
}

func request(t *testing.T, method, url, body string) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	require.NoError(t, err)
	return r
}
