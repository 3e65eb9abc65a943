package webhook_test

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo"
	"github.com/redo-go/redo/webhook"
)

// roundTrip is a base that calls a function for each request.
type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func answer(r *http.Request, status int) *http.Response {
	return &http.Response{
		StatusCode: status, ProtoMajor: 1, ProtoMinor: 1, Header: http.Header{}, Body: http.NoBody, Request: r,
	}
}

// Each attempt is signed by the clock of the bubble.
func TestEachAttemptHasItsOwnTimestampAndTheOneID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		secrets := []webhook.Secret{secret(t, sharedSecret)}
		v := verifier(t, secrets)
		var seen []webhook.Delivery
		base := roundTrip(func(r *http.Request) (*http.Response, error) {
			received := httptest.NewRequest(r.Method, r.URL.String(), r.Body)
			received.Header = r.Header
			d, err := v.Verify(received)
			require.NoError(t, err)
			require.Equal(t, time.Now().Truncate(time.Second).UTC(), d.Timestamp)
			require.Equal(t, r.Header.Get("Idempotency-Key"), d.ID)
			require.Equal(t, int64(len(d.Body)), r.ContentLength)
			seen = append(seen, d)
			if len(seen) < 3 {
				return answer(r, http.StatusServiceUnavailable), nil
			}
			return answer(r, http.StatusNoContent), nil
		})
		client, err := redo.New(
			redo.WithTransport(signer(t, secrets).Transport(base)),
			redo.WithRetry(redo.RetryPolicy{
				MaxAttempts: 3, BaseDelay: 10 * time.Second, MaxDelay: 10 * time.Second,
				MaxElapsed: time.Hour, AttemptTimeout: time.Minute,
				Jitter: func(int, time.Duration, redo.RetryPolicy, float64) time.Duration { return 10 * time.Second },
			}),
		)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, client.Close()) })
		ctx := redo.WithKey(t.Context(), "evt_1")
		body := strings.NewReader(vectorBody)
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://consumer.test/webhooks", body)
		require.NoError(t, err)
		resp, err := client.Do(req)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())

		require.Len(t, seen, 3)
		for i, d := range seen {
			require.Equal(t, "evt_1", d.ID)
			require.Equal(t, vectorBody, string(d.Body))
			if i > 0 {
				require.Equal(t, 10*time.Second, d.Timestamp.Sub(seen[i-1].Timestamp))
			}
		}
		require.Empty(t, req.Header, "the caller's request has no header of ours")
	})
}

// closing reports whether a body was closed.
type closing struct {
	io.Reader
	closed bool
}

func (c *closing) Close() error {
	c.closed = true
	return nil
}

func TestTheTransportKeepsTheRulesOfRoundTrippers(t *testing.T) {
	tr := signer(t, []webhook.Secret{secret(t, sharedSecret)}, atVectorTime()).Transport(roundTrip(
		func(r *http.Request) (*http.Response, error) {
			require.Equal(t, vectorHeader("X-Own", "kept"), r.Header)
			for range 2 {
				b, err := r.GetBody()
				require.NoError(t, err)
				read, err := io.ReadAll(b)
				require.NoError(t, err)
				require.Equal(t, vectorBody, string(read))
			}
			return answer(r, http.StatusOK), nil
		}))
	body := &closing{Reader: strings.NewReader(vectorBody)}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://consumer.test/", body)
	require.NoError(t, err)
	r.Header = http.Header{"Webhook-Id": {vectorID}, "Webhook-Timestamp": {"1"}, "X-Own": {"kept"}}
	before := r.Header.Clone()
	resp, err := tr.RoundTrip(r)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.True(t, body.closed)
	require.Equal(t, before, r.Header)
	require.Same(t, body, r.Body)
	require.Nil(t, r.GetBody)
}

func TestARequestWithoutABodyIsSigned(t *testing.T) {
	secrets := []webhook.Secret{secret(t, sharedSecret)}
	for name, body := range map[string]io.ReadCloser{"nil": nil, "none": http.NoBody} {
		tr := signer(t, secrets).Transport(roundTrip(func(r *http.Request) (*http.Response, error) {
			d, err := verifier(t, secrets).Verify(r)
			require.NoError(t, err, name)
			require.Nil(t, d.Body, name)
			return answer(r, http.StatusOK), nil
		}))
		r := &http.Request{URL: &url.URL{}, Header: http.Header{"Webhook-Id": {vectorID}}, Body: body}
		_, err := tr.RoundTrip(r)
		require.NoError(t, err, name)
	}
}

func TestWhatCannotBeSignedIsNotSent(t *testing.T) {
	tr := signer(t, []webhook.Secret{secret(t, sharedSecret)}, webhook.MaxBody(8)).Transport(roundTrip(
		func(*http.Request) (*http.Response, error) {
			t.Error("it was sent")
			return nil, errors.ErrUnsupported
		}))
	for _, c := range []struct {
		name   string
		header http.Header
		body   io.Reader
		want   string
		is     error
	}{
		{"no id", nil, strings.NewReader("x"),
			"webhook: webhook-id is missing: there is no Idempotency-Key either", webhook.ErrMissing},
		{"two ids", http.Header{"Webhook-Id": {"a", "b"}}, strings.NewReader("x"),
			"webhook: webhook-id is malformed: it was sent 2 times", webhook.ErrMalformed},
		{"two keys", http.Header{"Idempotency-Key": {"a", "b"}}, strings.NewReader("x"),
			"webhook: webhook-id is malformed: it is the value of Idempotency-Key, which is not one valid key",
			webhook.ErrMalformed},
		{"a key with a full stop", http.Header{"Idempotency-Key": {`"a.b"`}}, strings.NewReader("x"),
			"webhook: webhook-id is malformed: byte 1 is a full stop, which separates the signed parts",
			webhook.ErrMalformed},
		{"a long body", http.Header{"Idempotency-Key": {"a"}}, strings.NewReader("123456789"),
			"webhook: body too large: it has more than 8 bytes", webhook.ErrTooLarge},
		{"a body that breaks off", http.Header{"Idempotency-Key": {"a"}}, iotest.ErrReader(io.ErrUnexpectedEOF),
			"webhook: body unreadable: unexpected EOF", io.ErrUnexpectedEOF},
	} {
		t.Run(c.name, func(t *testing.T) {
			body := &closing{Reader: c.body}
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://consumer.test/", body)
			require.NoError(t, err)
			r.Header = c.header
			resp, err := tr.RoundTrip(r) //nolint:bodyclose // there is none
			require.EqualError(t, err, c.want)
			require.ErrorIs(t, err, c.is)
			dial, ok := errors.AsType[*net.OpError](err)
			require.True(t, ok && dial.Op == "dial", "clients take it as a proof that nothing was sent")
			unreadable := errors.Is(err, webhook.ErrBody) // it may be readable the next time
			require.Equal(t, !unreadable, errors.Is(err, webhook.Unsigned))
			require.Nil(t, resp)
			require.True(t, body.closed)
		})
	}
}

func TestTheIDIsTakenFromTheClientsKeyHeader(t *testing.T) {
	for _, c := range []struct {
		name   string
		opts   []webhook.SignerOption
		header http.Header
		id     string // empty: the request is refused
		want   string
	}{
		{"another header", []webhook.SignerOption{webhook.KeyHeader("x-refund-key")},
			http.Header{"X-Refund-Key": {`"evt_1"`}}, "evt_1", ""},
		{"webhook-id wins", []webhook.SignerOption{webhook.KeyHeader("X-Refund-Key")},
			http.Header{"X-Refund-Key": {"evt_1"}, "Webhook-Id": {"evt_2"}}, "evt_2", ""},
		{"the default header is not read then", []webhook.SignerOption{webhook.KeyHeader("X-Refund-Key")},
			http.Header{"Idempotency-Key": {"evt_1"}}, "",
			"webhook: webhook-id is missing: there is no X-Refund-Key either"},
		{"a key that is not one", []webhook.SignerOption{webhook.KeyHeader("X-Refund-Key")},
			http.Header{"X-Refund-Key": {""}}, "",
			"webhook: webhook-id is malformed: it is the value of X-Refund-Key, which is not one valid key"},
		{"another header without the option", nil, http.Header{"X-Refund-Key": {"evt_1"}}, "",
			"webhook: webhook-id is missing: there is no Idempotency-Key either"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var sent []string
			tr := signer(t, []webhook.Secret{secret(t, sharedSecret)}, c.opts...).Transport(roundTrip(
				func(r *http.Request) (*http.Response, error) {
					sent = append(sent, r.Header.Get("webhook-id"))
					return answer(r, http.StatusOK), nil
				}))
			body := strings.NewReader("x")
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://consumer.test/", body)
			require.NoError(t, err)
			r.Header = c.header
			resp, err := tr.RoundTrip(r)
			if c.id == "" {
				require.EqualError(t, err, c.want)
				require.ErrorIs(t, err, webhook.Unsigned)
				require.Empty(t, sent)
				return
			}
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
			require.Equal(t, []string{c.id}, sent)
		})
	}
}

func TestASignatureStaysWithItsHost(t *testing.T) {
	for _, c := range []struct {
		to   string
		sent int
	}{
		{"http://consumer.test/moved", 2},
		{"http://other.test/webhooks", 1},
		{"https://consumer.test/webhooks", 1},
	} {
		t.Run(c.to, func(t *testing.T) {
			sent := 0
			client := &http.Client{Transport: signer(t, []webhook.Secret{secret(t, sharedSecret)}).Transport(roundTrip(
				func(r *http.Request) (*http.Response, error) {
					sent++
					if r.URL.String() == c.to {
						return answer(r, http.StatusOK), nil
					}
					resp := answer(r, http.StatusTemporaryRedirect)
					resp.Header.Set("Location", c.to)
					return resp, nil
				}))}
			body := bytes.NewReader([]byte("x"))
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://consumer.test/", body)
			require.NoError(t, err)
			r.Header.Set("webhook-id", "evt_1")
			resp, err := client.Do(r)
			if c.sent == 1 {
				require.ErrorIs(t, err, webhook.ErrRedirected)
			} else {
				require.NoError(t, err)
			}
			if resp != nil {
				require.NoError(t, resp.Body.Close())
			}
			require.Equal(t, c.sent, sent)
		})
	}
}

func TestSigningRefusesWhatCouldNotBeVerified(t *testing.T) {
	s := signer(t, []webhook.Secret{secret(t, sharedSecret)}, webhook.MaxBody(3))
	h := http.Header{}
	err := s.SetHeader(h, "evt_1", time.Unix(-1, 0), nil)
	require.EqualError(t, err, "webhook: webhook-timestamp is malformed: -1 seconds, it must not be before 1970")
	require.ErrorIs(t, s.SetHeader(h, "", vectorTime, nil), webhook.ErrMalformed)
	require.ErrorIs(t, s.SetHeader(h, "evt_1", vectorTime, []byte("four")), webhook.ErrTooLarge)
	require.Empty(t, h)
}

type closer struct {
	http.RoundTripper
	closed bool
}

func (c *closer) CloseIdleConnections() { c.closed = true }

func TestIdleConnectionsAreClosedThroughTheTransport(t *testing.T) {
	base := &closer{}
	s := signer(t, []webhook.Secret{secret(t, sharedSecret)})
	(&http.Client{Transport: s.Transport(base)}).CloseIdleConnections()
	require.True(t, base.closed)
	(&http.Client{Transport: s.Transport(roundTrip(nil))}).CloseIdleConnections() // a base that has none
}
