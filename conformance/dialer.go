package conformance

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"
)

// dialer opens connections to one server. Each connection carries one request and one response.
type dialer struct {
	address string
	host    string      // the Host header
	prefix  string      // the base URL's path
	tls     *tls.Config // nil: plain
	timeout time.Duration

	connect func(context.Context) (net.Conn, error) // nil: TCP
}

func newDialer(u *url.URL, config *tls.Config, timeout time.Duration) *dialer {
	d := &dialer{host: u.Host, prefix: strings.TrimSuffix(u.EscapedPath(), "/"), timeout: timeout}
	port := u.Port()
	if u.Scheme == "https" {
		d.tls = config.Clone()
		if d.tls == nil {
			d.tls = &tls.Config{MinVersion: tls.VersionTLS12}
		}
		if d.tls.ServerName == "" {
			d.tls.ServerName = u.Hostname()
		}
		d.tls.NextProtos = []string{"http/1.1"}
		if port == "" {
			port = "443"
		}
	} else if port == "" {
		port = "80"
	}
	d.address = net.JoinHostPort(u.Hostname(), port)
	return d
}

// tlsConfig returns the target's TLS configuration.
func (t Target) tlsConfig() (*tls.Config, error) {
	config := t.TLS.Clone()
	if config == nil {
		config = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	config.InsecureSkipVerify = config.InsecureSkipVerify || t.Insecure
	if t.CAFile != "" {
		pem, err := os.ReadFile(t.CAFile)
		if err != nil {
			return nil, FieldErrors{{Field: "ca_file", Text: err.Error()}}
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, FieldErrors{{Field: "ca_file", Text: t.CAFile + " has no PEM certificate"}}
		}
	}
	if t.CertFile != "" {
		pair, err := tls.LoadX509KeyPair(t.CertFile, t.KeyFile)
		if err != nil {
			return nil, FieldErrors{{Field: "cert_file", Text: err.Error()}}
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}

// dial opens a connection that closes with the context.
func (d *dialer) dial(ctx context.Context) (net.Conn, error) {
	connect := d.connect
	if connect == nil {
		connect = func(ctx context.Context) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "tcp",
				d.address)
		}
	}
	conn, err := connect(ctx)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnreachable, err)
	}
	if d.tls == nil {
		return conn, nil
	}
	secure := tls.Client(conn, d.tls)
	if err := secure.HandshakeContext(ctx); err != nil {
		_ = conn.Close() // the handshake's error is the one to report
		return nil, fmt.Errorf("%w: %w%s", ErrUnreachable, err, handshakeHint(err))
	}
	return secure, nil
}

// handshakeHint returns the step that follows from the error of a handshake, or "".
func handshakeHint(err error) string {
	if _, untrusted := errors.AsType[x509.UnknownAuthorityError](err); untrusted {
		return " (ca_file names the certificates to trust)"
	}
	return ""
}

// delivery is a request on its way over its own connection.
type delivery struct {
	answer *answer
	conn   net.Conn // nil if the connection failed
	stop   func() bool
	cancel context.CancelFunc
	ctx    context.Context
	bytes  []byte // the bytes that remain to be written
	method string
}

// open connects. The time of the exchange counts from here.
func (d *dialer) open(ctx context.Context, r request) *delivery {
	x := &delivery{answer: &answer{sent: time.Now()}, bytes: r.encode(d.host, d.prefix), method: r.method}
	x.ctx, x.cancel = context.WithTimeoutCause(ctx, d.timeout,
		fmt.Errorf("the exchange took longer than %v, the target's timeout", d.timeout))
	conn, err := d.dial(x.ctx)
	if err != nil {
		x.answer.fail(err)
		x.cancel()
		return x
	}
	x.conn = conn
	x.answer.sent = time.Now()
	x.stop = context.AfterFunc(x.ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) }) // ends pending reads and writes
	return x
}

// write writes the next n bytes to the connection, or all remaining bytes if n is negative. Its error does not end
// the exchange, because the server may have responded before it read everything.
func (x *delivery) write(n int) error {
	if x.conn == nil {
		return x.answer.err
	}
	if n < 0 || n > len(x.bytes) {
		n = len(x.bytes)
	}
	if n == 0 {
		return nil // over TLS, a write of nothing is a record
	}
	_, err := x.conn.Write(x.bytes[:n])
	x.bytes = x.bytes[n:]
	return err
}

// finish writes the remaining bytes, reads the response and closes the connection.
func (x *delivery) finish() *answer {
	if x.conn == nil {
		return x.answer
	}
	defer x.close()
	_ = x.write(-1) // the read reports more
	x.answer.read(x.conn, x.method)
	if x.answer.err != nil && x.ctx.Err() != nil {
		x.answer.err = context.Cause(x.ctx)
	}
	return x.answer
}

// abandon closes the connection without a response.
func (x *delivery) abandon(why string) *answer {
	if x.conn != nil {
		x.close()
		x.answer.fail(errors.New(why))
	}
	return x.answer
}

func (x *delivery) close() {
	x.stop()
	_ = x.conn.Close()
	x.cancel()
}

// exchange sends one request and waits for its response.
func (d *dialer) exchange(ctx context.Context, r request) *answer {
	return d.open(ctx, r).finish()
}

// race sends requests so that they arrive together. It first writes each request except its last byte, and then
// writes the last bytes one after the other, with nothing in between.
func (d *dialer) race(ctx context.Context, requests []request) []*answer {
	deliveries := make([]*delivery, len(requests))
	var group sync.WaitGroup
	for i, r := range requests {
		group.Go(func() {
			x := d.open(ctx, r)
			_ = x.write(len(x.bytes) - 1) // finish reports the error
			deliveries[i] = x
		})
	}
	group.Wait()
	for _, x := range deliveries {
		_ = x.write(-1) // as above
	}
	answers := make([]*answer, len(requests))
	for i, x := range deliveries {
		group.Go(func() { answers[i] = x.finish() })
	}
	group.Wait()
	return answers
}
