package conformance

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// On connections without buffers, in virtual time: nothing of a request's last byte may move while another request is
// not yet on the wire.
func TestRacersHoldTheirLastByteUntilAllOthersAreSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		servers := make(chan net.Conn, racers)
		d := &dialer{host: "race.test", timeout: time.Minute, connect: func(context.Context) (net.Conn, error) {
			client, server := net.Pipe()
			servers <- server
			return client, nil
		}}
		r := request{method: http.MethodPost, path: "/x", body: []byte("payload")}
		length := len(r.encode("race.test", ""))
		requests := make([]request, racers)
		for i := range requests {
			requests[i] = r
		}
		done := make(chan []*answer)
		go func() { done <- d.race(t.Context(), requests) }()

		var last atomic.Int64
		serve := func(conn net.Conn) {
			_, err := io.ReadFull(conn, make([]byte, 1))
			if err == nil {
				last.Add(1)
			}
			_, _ = io.WriteString(conn, "HTTP/1.1 204 No Content\r\n\r\n")
		}
		for range racers - 1 {
			conn := <-servers
			_, err := io.ReadFull(conn, make([]byte, length-1))
			require.NoError(t, err)
			go serve(conn)
		}
		late := <-servers
		_, err := io.ReadFull(late, make([]byte, length-2))
		require.NoError(t, err)
		synctest.Wait()
		require.Zero(t, last.Load())

		_, err = io.ReadFull(late, make([]byte, 1))
		require.NoError(t, err)
		go serve(late)
		synctest.Wait()
		require.Equal(t, int64(racers), last.Load())
		for _, a := range <-done {
			require.Equal(t, http.StatusNoContent, a.status)
		}
	})
}

// The client must see a reset and not an end, and the target must have sent the whole response.
func TestProxyLosesTheAnswerByAReset(t *testing.T) {
	var served atomic.Int64
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		served.Add(1)
		_, _ = w.Write(body)
	}))
	t.Cleanup(srv.Close)
	u, err := url.Parse(srv.URL)
	require.NoError(t, err)
	seen, lost, err := newDialer(u, nil, time.Minute).loseAnswer(t.Context(),
		request{method: http.MethodPost, path: "/x", body: []byte("payload")})
	require.NoError(t, err)
	require.ErrorIs(t, seen.err, syscall.ECONNRESET)
	require.Zero(t, seen.status)
	require.NoError(t, lost.err)
	require.Equal(t, "payload", string(lost.body))
	require.Equal(t, int64(1), served.Load())
}

func TestExchangeEndsWithItsTimeAndWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		silent := func(context.Context) (net.Conn, error) {
			client, server := net.Pipe()
			go func() { _, _ = io.Copy(io.Discard, server) }()
			return client, nil
		}
		d := &dialer{host: "silent.test", timeout: 3 * time.Second, connect: silent}
		start := time.Now()
		a := d.exchange(t.Context(), request{method: http.MethodPost, path: "/x"})
		require.EqualError(t, a.err, "the exchange took longer than 3s, the target's timeout")
		require.Equal(t, 3*time.Second, time.Since(start))

		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(io.ErrClosedPipe) })
		a = d.exchange(ctx, request{method: http.MethodPost, path: "/x"})
		require.ErrorIs(t, a.err, io.ErrClosedPipe)
		require.Equal(t, 4*time.Second, time.Since(start))
	})
}

func TestRequestsAreWrittenAsTheyAre(t *testing.T) {
	r := request{method: http.MethodPost, path: "/x?y=1", fields: []field{{"x-key", "a\xE9"}, {"X-KEY", ""}},
		body: []byte("body")}
	require.Equal(t, "POST /v1/x?y=1 HTTP/1.1\r\nHost: h\r\nx-key: a\xE9\r\nX-KEY: \r\nContent-Length: "+
		"4\r\nConnection: close\r\n\r\nbody",
		string(r.encode("h", "/v1")))
	r.chunked = true
	require.Equal(t, "POST /v1/x?y=1 HTTP/1.1\r\nHost: h\r\nx-key: a\xE9\r\nX-KEY: \r\nTransfer-Encoding: "+
		"chunked\r\nConnection: close\r\n\r\n2\r\nbo\r\n2\r\ndy\r\n0\r\n\r\n",
		string(r.encode("h", "/v1")))
	require.Equal(t, "QUERY / HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
		string(request{method: "QUERY", path: "/"}.encode("h", "")), "a QUERY has a body, which may be empty")
	require.Equal(t, "GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n",
		string(request{method: http.MethodGet, path: "/"}.encode("h", "")))
	require.Equal(t, "/x?y=1&z=2", r.withQuery("z=2").path)
	require.Equal(t, []field{{"X-Key", "b"}}, r.set("X-Key", "b").fields)
	require.Len(t, r.fields, 2) // the first request is as it was
}

func TestOnlyAnUnknownAuthorityIsMendedByTheTrustOfMoreCertificates(t *testing.T) {
	for cause, hints := range map[error]bool{
		&tls.CertificateVerificationError{Err: x509.UnknownAuthorityError{}}: true,
		&tls.CertificateVerificationError{Err: x509.HostnameError{
			Certificate: &x509.Certificate{}, Host: "a.test"}}: false,
		&tls.CertificateVerificationError{Err: x509.CertificateInvalidError{Reason: x509.Expired}}: false,
		io.ErrUnexpectedEOF: false,
	} {
		require.Equal(t, hints, handshakeHint(cause) != "", "%v", cause)
	}
}

func TestClientShowsItsCertificateAndMayTrustAll(t *testing.T) {
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter,
		_ *http.Request) {
		w.WriteHeader(http.StatusCreated)
	}))
	srv.Config.ErrorLog = log.New(io.Discard, "", 0)
	srv.TLS = &tls.Config{ClientAuth: tls.RequireAnyClientCert}
	srv.StartTLS()
	t.Cleanup(srv.Close)
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	pair := srv.TLS.Certificates[0]
	der, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	require.NoError(t, err)
	write := func(name, kind string, der []byte) {
		require.NoError(t, os.WriteFile(name, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600))
	}
	write(cert, "CERTIFICATE", pair.Certificate[0])
	write(key, "PRIVATE KEY", der)
	base := Target{BaseURL: srv.URL, Operation: Operation{Method: "POST", Path: "/x", Body: "{{payload}}"}}
	for name, c := range map[string]struct {
		change func(*Target)
		status int
	}{
		"neither":       {func(*Target) {}, 0},
		"insecure":      {func(t *Target) { t.Insecure = true }, 0},
		"a certificate": {func(t *Target) { t.CertFile, t.KeyFile = cert, key }, 0},
		"both":          {func(t *Target) { t.CertFile, t.KeyFile, t.Insecure = cert, key, true }, http.StatusCreated},
		"trusted":       {func(t *Target) { t.CertFile, t.KeyFile, t.CAFile = cert, key, cert }, http.StatusCreated},
	} {
		t.Run(name, func(t *testing.T) {
			target := base
			c.change(&target)
			config, err := target.tlsConfig()
			require.NoError(t, err)
			u, err := target.base()
			require.NoError(t, err)
			a := newDialer(u, config, time.Minute).exchange(t.Context(), request{method: http.MethodPost, path: "/x"})
			require.Equal(t, c.status, a.status, a)
			if name == "neither" {
				require.ErrorContains(t, a.err, "(ca_file names the certificates to trust)")
			}
		})
	}
	base.CertFile = cert
	require.ErrorContains(t, base.Validate(), "cert_file: goes together with key_file")
	base.KeyFile = cert
	_, err = base.tlsConfig()
	require.ErrorIs(t, err, ErrConfig)
}
