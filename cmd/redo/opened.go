package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/redis/rueidis"

	"github.com/redo-go/redo/internal/wire"
)

// openLimit bounds the time in which a command opens a store or a queue.
const openLimit = 10 * time.Second

// opened opens the store that an argument names, and gives up after openLimit. The context of open ends then. The
// error names a URL without its credentials and, if time ran out, the response that was missing.
func opened[S any](ctx context.Context, name string, on engine, open func(context.Context) (S, error)) (S, error) {
	start := time.Now()
	bounded, cancel := context.WithTimeout(ctx, openLimit)
	defer cancel()
	st, err := open(bounded)
	if err == nil {
		return st, nil
	}
	var none S
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded) {
		missing := fmt.Sprintf("%s did not respond", on)
		if on == sqliteFile {
			missing = "another process holds the lock of the file"
		}
		err = fmt.Errorf("gave up after %v, because %s: %w", time.Since(start).Round(time.Second/10), missing, err)
	}
	if strings.Contains(name, "://") {
		name = wire.ShownURL(name)
	} else {
		name = fmt.Sprintf("the file %q", name)
	}
	return none, fmt.Errorf("opening %s: %w", name, err)
}

// newRedisClient makes a client, unless the context ends first. rueidis itself knows only its own timeouts. A client
// that is made later is not closed, because the program ends after the error.
func newRedisClient(ctx context.Context, opt rueidis.ClientOption) (rueidis.Client, error) {
	if opt.TLSConfig != nil {
		opt.DialCtxFn = dialTLS
	}
	type made struct {
		client rueidis.Client
		err    error
	}
	done := make(chan made, 1)
	go func() {
		client, err := rueidis.NewClient(opt)
		done <- made{client, err}
	}()
	select {
	case m := <-done:
		cut := errors.Is(m.err, io.EOF) || errors.Is(m.err, syscall.ECONNRESET) || errors.Is(m.err, syscall.EPIPE)
		if cut && opt.TLSConfig == nil {
			m.err = fmt.Errorf("%w (the URL of a server with TLS begins with rediss://)", m.err)
		}
		return m.client, m.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// dialTLS connects as rueidis does by default. Its error names a failed handshake.
func dialTLS(ctx context.Context, address string, d *net.Dialer, config *tls.Config) (net.Conn, error) {
	conn, err := (&tls.Dialer{NetDialer: d, Config: config}).DialContext(ctx, "tcp", address)
	op, dialing := errors.AsType[*net.OpError](err)
	_, untrusted := errors.AsType[*tls.CertificateVerificationError](err)
	switch {
	case err == nil, dialing && op.Op == "dial":
		return conn, err
	case untrusted:
		return nil, fmt.Errorf("the TLS handshake failed: %w", err)
	}
	return nil, fmt.Errorf("the TLS handshake failed (the URL of a server without TLS begins with redis://): %w", err)
}
