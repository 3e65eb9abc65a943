package conformance

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"sync"
	"time"
)

// proxy sits between this client and the target and loses one response. It reads the target's whole response and
// then resets both connections, without a byte for the client. For the target, this is a client that died after
// the response.
type proxy struct {
	upstream *dialer
	listener net.Listener
	method   string
	group    sync.WaitGroup
	lost     *answer // the target's response
}

// loseAnswer sends a request through a proxy. It returns the client's result, which is an error, and the target's
// response.
func (d *dialer) loseAnswer(ctx context.Context, r request) (seen, lost *answer, err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, d.timeout)
	defer cancel()
	p := &proxy{upstream: d, listener: l, method: r.method, lost: &answer{err: errors.New("the proxy was not reached")}}
	p.group.Go(func() { p.serve(ctx) })
	// The proxy connects to the target, with TLS if needed. The connection to the proxy is plain, and the Host remains
	// the target's.
	near := &dialer{address: l.Addr().String(), host: d.host, prefix: d.prefix, timeout: d.timeout}
	seen = near.exchange(ctx, r)
	_ = l.Close() // ends a pending Accept
	p.group.Wait()
	return seen, p.lost, nil
}

func (p *proxy) serve(ctx context.Context) {
	client, err := p.listener.Accept()
	if err != nil {
		return
	}
	defer reset(client)
	p.lost.sent = time.Now()
	server, err := p.upstream.dial(ctx)
	if err != nil {
		p.lost.fail(err)
		return
	}
	stop := context.AfterFunc(ctx, func() {
		_ = server.SetDeadline(time.Unix(1, 0)) // both ends are given up
		_ = client.SetDeadline(time.Unix(1, 0))
	})
	defer stop()
	p.group.Go(func() { _, _ = io.Copy(server, client) }) // ends when the client's connection is reset
	p.lost.err = nil
	p.lost.read(server, p.method)
	reset(server) // the target sees the same when a client's machine dies
}

// reset closes a connection so that its other end sees a reset instead of an end.
func reset(conn net.Conn) {
	inner := conn
	if secure, ok := conn.(*tls.Conn); ok {
		inner = secure.NetConn()
	}
	if tcp, ok := inner.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
		conn = tcp
	}
	_ = conn.Close()
}
