package taxonomy

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// attempt sends one request like a client, reads the body, and records whether the head was written.
func attempt(t *testing.T, rt http.RoundTripper, ctx context.Context, address string) Answer {
	t.Helper()
	var a Answer
	trace := &httptrace.ClientTrace{WroteHeaders: func() { a.Sent = true }}
	ctx = httptrace.WithClientTrace(ctx, trace)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, address, strings.NewReader("{}"))
	if err != nil {
		return Answer{Err: err}
	}
	client := &http.Client{Transport: rt}
	resp, err := client.Do(req)
	if err != nil {
		a.Err = err
		return a
	}
	defer resp.Body.Close()
	a.Status, a.Header = resp.StatusCode, resp.Header
	a.Body, a.Err = io.ReadAll(resp.Body)
	return a
}

func newTransport(t *testing.T) *http.Transport {
	t.Helper()
	tr := &http.Transport{}
	t.Cleanup(tr.CloseIdleConnections)
	return tr
}

// hijacked serves a TCP connection by hand once a request's head was read.
func hijacked(t *testing.T, serve func(net.Conn)) string {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		serve(conn)
		_ = conn.Close()
	}))
	t.Cleanup(srv.Close)
	return srv.URL
}

func TestErrorsThatNetHTTPReallyMakes(t *testing.T) {
	t.Setenv("GODEBUG", "http2client=1,http2server=1") // the environment may switch HTTP/2 off
	ok := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	cases := []struct {
		name string
		do   func(t *testing.T) Answer
		want Verdict
	}{
		{"a closed port is unavailable and was never sent", func(t *testing.T) Answer {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			require.NoError(t, err)
			require.NoError(t, l.Close())
			return attempt(t, newTransport(t), t.Context(), "http://"+l.Addr().String())
		}, Verdict{Code: Unavailable, Class: ClassTransient, Effect: NotApplied}},

		{"an untrusted certificate is configuration", func(t *testing.T) Answer {
			srv := quietTLSServer(t, ok)
			return attempt(t, newTransport(t), t.Context(), srv.URL)
		}, Verdict{Code: TLS, Effect: NotApplied}},

		{"a certificate for another host is configuration", func(t *testing.T) Answer {
			srv := quietTLSServer(t, ok)
			tr := newTransport(t)
			tr.TLSClientConfig = srv.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
			tr.TLSClientConfig.ServerName = "other.test"
			return attempt(t, tr, t.Context(), srv.URL)
		}, Verdict{Code: TLS, Effect: NotApplied}},

		{"plain HTTP on an https URL is configuration", func(t *testing.T) Answer {
			srv := httptest.NewServer(ok)
			t.Cleanup(srv.Close)
			return attempt(t, newTransport(t), t.Context(), strings.Replace(srv.URL, "http:", "https:", 1))
		}, Verdict{Code: TLS, Effect: NotApplied}},

		{"a reset before the response leaves the effect unknown", func(t *testing.T) Answer {
			address := hijacked(t, func(c net.Conn) { _ = c.(*net.TCPConn).SetLinger(0) })
			return attempt(t, newTransport(t), t.Context(), address)
		}, Verdict{Code: Reset, Class: ClassTransient, Effect: EffectUnknown}},

		{"a close before the response is an EOF", func(t *testing.T) Answer {
			address := hijacked(t, func(net.Conn) {})
			return attempt(t, newTransport(t), t.Context(), address)
		}, Verdict{Code: EOF, Class: ClassTransient, Effect: EffectUnknown}},

		{"a body shorter than its Content-Length is truncated", func(t *testing.T) Answer {
			address := hijacked(t, func(c net.Conn) {
				_, _ = io.WriteString(c, "HTTP/1.1 201 Created\r\nContent-Length: 100\r\n\r\n{")
			})
			return attempt(t, newTransport(t), t.Context(), address)
		}, Verdict{Code: Truncated, Class: ClassTransient, Effect: EffectUnknown}},

		{"a truncated error body leaves its status", func(t *testing.T) Answer {
			address := hijacked(t, func(c net.Conn) {
				_, _ = io.WriteString(c, "HTTP/1.1 404 Not Found\r\nContent-Length: 100\r\n\r\n{")
			})
			return attempt(t, newTransport(t), t.Context(), address)
		}, Verdict{Code: NotFound, Effect: NotApplied}},

		{"an unparsable URL is configuration", func(t *testing.T) Answer {
			return attempt(t, newTransport(t), t.Context(), "http://a b/")
		}, Verdict{Code: BadURL, Effect: NotApplied}},

		{"a port that can't be dialed is configuration", func(t *testing.T) Answer {
			return attempt(t, newTransport(t), t.Context(), "http://127.0.0.1:99999/")
		}, Verdict{Code: BadURL, Effect: NotApplied}},

		{"an HTTP/2 handler that aborts resets its stream", func(t *testing.T) Answer {
			srv := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
				panic(http.ErrAbortHandler)
			}))
			srv.EnableHTTP2 = true
			srv.StartTLS()
			t.Cleanup(srv.Close)
			return attempt(t, srv.Client().Transport, t.Context(), srv.URL)
		}, Verdict{Code: Reset, Class: ClassTransient, Effect: EffectUnknown}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			a := c.do(t)
			require.Error(t, a.Err)
			require.Equal(t, c.want, Classify(a), "%v", a.Err)
		})
	}
}

// quietTLSServer starts a server that logs no failed handshakes.
func quietTLSServer(t *testing.T, h http.Handler) *httptest.Server {
	t.Helper()
	srv := httptest.NewUnstartedServer(h)
	srv.Config.ErrorLog = discardLog
	srv.StartTLS()
	t.Cleanup(srv.Close)
	return srv
}

func TestTimeoutsThatNetHTTPReallyMakes(t *testing.T) {
	// A peer that reads and never responds, without a socket, so that time can be virtual.
	silent := func(context.Context, string, string) (net.Conn, error) {
		client, server := net.Pipe()
		go func() {
			_, _ = io.Copy(io.Discard, server)
			_ = server.Close()
		}()
		return client, nil
	}
	t.Run("an attempt's own timeout", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			a := attempt(t, &http.Transport{DialContext: silent}, ctx, "http://api.test/")
			require.Equal(t, Verdict{Code: Timeout, Class: ClassTransient}, Classify(a))
		})
	})
	t.Run("a response header timeout", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			tr := &http.Transport{DialContext: silent, ResponseHeaderTimeout: time.Second}
			a := attempt(t, tr, t.Context(), "http://api.test/")
			require.Equal(t, Verdict{Code: Timeout, Class: ClassTransient}, Classify(a))
		})
	})
	t.Run("the caller's own deadline", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			a := attempt(t, &http.Transport{DialContext: silent}, ctx, "http://api.test/")
			a.Caller = context.Cause(ctx)
			require.Equal(t, Verdict{Code: CallerDeadline}, Classify(a))
		})
	})
}

func TestUnknownHost(t *testing.T) {
	for name, c := range map[string]struct {
		err  net.DNSError
		want Code
	}{
		"a missing name is configuration":        {net.DNSError{IsNotFound: true}, UnknownHost},
		"a resolver that failed is unavailable":  {net.DNSError{}, Unavailable},
		"a temporary failure is no missing name": {net.DNSError{IsNotFound: true, IsTemporary: true}, Unavailable},
		"a resolver's timeout is a dependency's": {net.DNSError{IsTimeout: true}, Timeout},
	} {
		t.Run(name, func(t *testing.T) {
			dial := func(context.Context, string, string) (net.Conn, error) { return nil, &c.err }
			a := attempt(t, &http.Transport{DialContext: dial}, t.Context(), "http://api.test/")
			require.Equal(t, c.want, Classify(a).Code)
			require.Equal(t, NotApplied, Classify(a).Effect)
		})
	}
}

func TestKindsAreFoundHoweverDeep(t *testing.T) {
	deep := func(err error) error {
		inner := &url.Error{Op: "Post", Err: fmt.Errorf("a: %w", err)}
		return fmt.Errorf("b: %w", errors.Join(errors.New("other"), inner))
	}
	for kind, err := range transportErrors {
		t.Run(kind, func(t *testing.T) {
			require.Equal(t, transportCode(err), transportCode(deep(err)))
		})
	}
}

// A caller's own check of a certificate returns these errors as they are.
func TestEachErrorOfACertificateIsPermanent(t *testing.T) {
	for _, err := range []error{
		x509.UnknownAuthorityError{}, x509.HostnameError{Certificate: &x509.Certificate{}, Host: "api.test"},
		x509.CertificateInvalidError{Reason: x509.Expired}, x509.SystemRootsError{}, x509.ConstraintViolationError{},
		x509.UnhandledCriticalExtension{}, x509.InsecureAlgorithmError(x509.MD5WithRSA), &tls.ECHRejectionError{},
	} {
		require.Equal(t, transportCode(transportErrors["certificate"]), transportCode(err), "%T", err)
	}
}

func TestTextIsNoEvidence(t *testing.T) {
	for _, err := range transportErrors {
		require.Equal(t, Connection, transportCode(errors.New(err.Error())), err.Error())
	}
}

func TestAnErrorsOwnCode(t *testing.T) {
	for name, c := range map[string]struct{ own, want Code }{
		"is kept":                       {TooManyRedirects, TooManyRedirects},
		"is kept below a family":        {"TRANSIENT.breaker_open", "TRANSIENT.breaker_open"},
		"is ignored without a family":   {"breaker open", Connection},
		"is ignored as a mere family":   {Validation, Connection},
		"is ignored where it succeeded": {Duplicate, Connection},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, c.want, transportCode(fmt.Errorf("client: %w", c.own)))
		})
	}
}

func TestAPeersAlertIsNotConfiguration(t *testing.T) {
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	srv.TLS = &tls.Config{MinVersion: tls.VersionTLS13}
	srv.Config.ErrorLog = discardLog
	srv.StartTLS()
	t.Cleanup(srv.Close)
	tr := newTransport(t)
	tr.TLSClientConfig = srv.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
	tr.TLSClientConfig.MaxVersion = tls.VersionTLS12
	a := attempt(t, tr, t.Context(), srv.URL)
	require.Equal(t, Verdict{Code: Connection, Class: ClassTransient, Effect: NotApplied}, Classify(a))
}
