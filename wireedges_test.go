package redo_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo"
	"github.com/redo-go/redo/taxonomy"
)

// serve returns the URL of a server on a socket, and the requests that it read, as text.
func serve(t *testing.T, respond func(w http.ResponseWriter, r *http.Request)) (string, *[]string) {
	t.Helper()
	var seen []string
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		seen = append(seen, fmt.Sprintf("%s%s %s %v", r.Host, r.URL.Path, body, r.Trailer))
		respond(w, r)
	}))
	t.Cleanup(srv.Close)
	return srv.URL, &seen
}

// A gateway chooses the service by the Host. The same request to another virtual host is another operation.
func TestTheVirtualHostBelongsToTheRequest(t *testing.T) {
	origin, seen := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/old" {
			w.Header().Set("Location", "/new")
			w.WriteHeader(http.StatusTemporaryRedirect)
		}
	})
	client := connect(t, http.DefaultTransport, redo.WithStore(openStore(t)))
	request := func(path, host string) *http.Request {
		req := post(t, redo.WithOperation(t.Context(), "op"), origin+path, payment)
		req.Host = host
		return req
	}
	succeed(t, client, request("/old", "a.test"))
	require.Len(t, *seen, 2)
	require.True(t, strings.HasPrefix((*seen)[1], "a.test/new "), "a relative Location keeps the host: %v", *seen)
	require.ErrorIs(t, fail(t, client, request("/old", "b.test")), taxonomy.PayloadMismatch)
	succeed(t, client, request("/old", "A.test"))
	require.Len(t, *seen, 2, "the stored response")
}

func TestAnOpaqueURLBelongsToTheRequest(t *testing.T) {
	origin, seen := serve(t, func(http.ResponseWriter, *http.Request) {})
	client := connect(t, http.DefaultTransport, redo.WithStore(openStore(t)))
	request := func(opaque string) *http.Request {
		req := post(t, redo.WithOperation(t.Context(), "op"), origin, payment)
		req.URL.Opaque = opaque
		return req
	}
	succeed(t, client, request("/refunds/1%2F2"))
	require.ErrorIs(t, fail(t, client, request("/refunds/2")), taxonomy.PayloadMismatch)
	succeed(t, client, request("/refunds/1%2F2"))
	require.Len(t, *seen, 1)
}

// Trailers follow a body of unknown length. They are sent although the body is held, and are not stored.
func TestTrailersAreSent(t *testing.T) {
	origin, seen := serve(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) })
	client := connect(t, http.DefaultTransport, redo.WithStore(openStore(t)),
		redo.WithRetry(redo.RetryPolicy{MaxAttempts: 2, Jitter: redo.NoDelay}))
	for _, ctx := range []context.Context{redo.WithOperation(t.Context(), "op"), redo.WithKey(t.Context(), "k")} {
		req := post(t, ctx, origin, "1000")
		req.GetBody, req.Body, req.ContentLength = nil, io.NopCloser(strings.NewReader("1000")), -1
		req.Trailer = http.Header{"X-Sum": {"42"}}
		fail(t, client, req)
	}
	require.Len(t, *seen, 4)
	for _, got := range *seen {
		require.True(t, strings.HasSuffix(got, "/ 1000 map[X-Sum:[42]]"), got)
	}
	op := pending(t, client)[0]
	require.False(t, op.Resumable)
	_, err := client.Resume(t.Context(), op)
	require.ErrorContains(t, err, "X-Sum")
}

// A tunnel ends with half of the connection first, also below a reverse proxy.
func TestAnUpgradedConnectionIsClosedByHalves(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			r := bufio.NewReader(conn)
			if _, err := http.ReadRequest(r); err == nil {
				_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: raw\r\n\r\n")
				got, _ := io.ReadAll(r)
				_, _ = fmt.Fprintf(conn, "got %d", len(got))
			}
			_ = conn.Close()
		}
	}()
	u, err := url.Parse("http://" + l.Addr().String())
	require.NoError(t, err)
	proxy := httputil.NewSingleHostReverseProxy(u)
	proxy.Transport = connect(t, http.DefaultTransport).Transport()
	srv := httptest.NewServer(proxy)
	t.Cleanup(srv.Close)
	conn, err := net.Dial("tcp", srv.Listener.Addr().String())
	require.NoError(t, err)
	defer func() { _ = conn.Close() }()
	_, err = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: raw\r\n\r\n")
	require.NoError(t, err)
	r := bufio.NewReader(conn)
	resp, err := http.ReadResponse(r, nil)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	_, err = io.WriteString(conn, "hello")
	require.NoError(t, err)
	require.NoError(t, conn.(*net.TCPConn).CloseWrite())
	require.NoError(t, conn.SetReadDeadline(time.Now().Add(10*time.Second)))
	got, err := io.ReadAll(r)
	require.NoError(t, err)
	require.Equal(t, "got 5", string(got))
}

// A status below 100 is no success. Its response is that of an error, which needs no Close.
func TestAStatusBelow100IsAnErrorWhoseBodyIsClosed(t *testing.T) {
	for _, status := range []int{-1, 0, 42, 99} {
		body := &watchedBody{Reader: strings.NewReader("odd")}
		client := connect(t, tripper(func(r *http.Request) (*http.Response, error) {
			resp := answer(r, status, "")
			resp.Body = body
			return resp, nil
		}), redo.WithRetry(redo.RetryPolicy{MaxAttempts: 1}))
		e := fail(t, client, post(t, t.Context(), "https://bank.test", payment))
		require.Equal(t, status, e.StatusCode)
		require.EqualValues(t, 1, body.closed.Load(), status)
	}
}

// A final response that does not fit in the record is left out of it. The operation rests all the same.
func TestAFinalFailureOfAnySizeRests(t *testing.T) {
	for _, size := range []int{10, 900 << 10} {
		requests := 0
		client := connect(t, tripper(func(r *http.Request) (*http.Response, error) {
			requests++
			return answer(r, 500, "", "Idempotency-Status", "replayed", "X-Long", strings.Repeat("x", size)), nil
		}), redo.WithStore(openStore(t)))
		for range 2 {
			e := fail(t, client, post(t, redo.WithOperation(t.Context(), "op"), "https://bank.test", payment))
			require.Equal(t, redo.EffectUnknown, e.Effect)
		}
		require.Equal(t, 1, requests, "header of %d bytes", size)
	}
}

// net/http sends a header under the name that its map has.
func TestAStoredHeaderOfAnotherSpellingIsSentOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var sent []http.Header
		client := connect(t, tripper(func(r *http.Request) (*http.Response, error) {
			sent = append(sent, r.Header)
			return nil, io.EOF
		}), redo.WithStore(openStore(t)), redo.WithRetry(redo.RetryPolicy{MaxAttempts: 1}))
		for range 2 {
			req := post(t, redo.WithOperation(t.Context(), "op"), "https://bank.test", payment)
			req.Header = http.Header{"content-type": {"text/plain"}, "X-Trace": {"1"}}
			fail(t, client, req)
		}
		for _, h := range sent {
			lines := 0
			for name := range h {
				if strings.EqualFold(name, "Content-Type") {
					lines++
				}
			}
			require.Equal(t, 1, lines, h)
			require.Equal(t, []string{"1"}, h["X-Trace"])
		}
	})
}

// A function of credentials may sign the URL of its attempt. The caller's URL stays as it is.
func TestCredentialsInTheURLStayInTheAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var sent []string
		client := connect(t, tripper(func(r *http.Request) (*http.Response, error) {
			sent = append(sent, r.URL.RawQuery)
			return answer(r, []int{503, 201}[len(sent)-1], "{}"), nil
		}), redo.WithCredentials(func(r *http.Request) error {
			q := r.URL.Query()
			q.Add("sig", "s")
			r.URL.RawQuery = q.Encode()
			return nil
		}))
		req := post(t, redo.WithKey(t.Context(), "k"), "https://bank.test/refunds?a=1", payment)
		succeed(t, client, req)
		require.Equal(t, "a=1", req.URL.RawQuery)
		require.Equal(t, []string{"a=1&sig=s", "a=1&sig=s"}, sent)
	})
}

func TestTheBodyOfAFindingIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for effect := range map[redo.Effect]bool{redo.EffectUnknown: true, redo.Applied: true, redo.NotApplied: true} {
			probed := &watchedBody{Reader: strings.NewReader("{}")}
			client := connect(t, tripper(func(r *http.Request) (*http.Response, error) {
				return answer(r, 500, "", "Idempotency-Status", "stored"), nil
			}), redo.WithStore(openStore(t)), redo.WithProbe(func(context.Context, redo.Operation) (redo.Finding, error) {
				return redo.Finding{Effect: effect, Evidence: "GET", Response: &http.Response{StatusCode: 200, Body: probed}}, nil
			}))
			resp, err := client.Do(post(t, redo.WithOperation(t.Context(), "op"), "https://bank.test", payment))
			if err == nil {
				drain(t, resp)
			}
			require.Positive(t, probed.closed.Load(), effect)
			own := &watchedBody{Reader: strings.NewReader("{}")}
			require.Error(t, client.Settle(t.Context(), "op", redo.Finding{
				Effect: redo.Applied, Response: &http.Response{StatusCode: 200, Body: own},
			}), "no evidence")
			require.Positive(t, own.closed.Load())
		}
	})
}
