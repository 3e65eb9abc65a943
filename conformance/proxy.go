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

// A proxy stands between this client and the target and loses one answer: it reads the target's whole response, and then
// resets the connections of both, without a byte of it for the client. The target has served its client, which then died.
type proxy struct {
	upstream *dialer
	listener net.Listener
	method   string
	group    sync.WaitGroup
	lost     *answer // what the target had said
}

// loseAnswer sends a request through a proxy. It returns what the client saw, which is an error, and what the target had
// answered.
func (d *dialer) loseAnswer(ctx context.Context, r request) (seen, lost *answer, err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, d.timeout)
	defer cancel()
	p := &proxy{upstream: d, listener: l, method: r.method, lost: &answer{err: errors.New("the proxy was not reached")}}
	p.group.Go(func() { p.serve(ctx) })
	// The proxy speaks to the target for us, over TLS if need be; the way to it is plain, and the Host stays the target's.
	near := &dialer{address: l.Addr().String(), host: d.host, prefix: d.prefix, timeout: d.timeout}
	seen = near.exchange(ctx, r)
	_ = l.Close() // an Accept that still waits ends
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
	reset(server) // as the target sees it when a client's machine dies
}

// reset closes a connection so that its other end sees a reset and not an end.
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
