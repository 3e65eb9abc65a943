package servertest

import (
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
)

// wireConn is a server's connection that can be reset. It counts the bytes that were really written, so that a
// fault knows which bytes were sent.
type wireConn struct {
	net.Conn
	number  int // from 1, in the order of acceptance
	written atomic.Int64
	forget  func(*wireConn)

	mu    sync.Mutex
	stale *step // the StaleKeepAlive that breaks the next request on this connection
}

// Write writes and counts the bytes. The type has no other way to write, such as io.ReaderFrom, so that every byte
// passes here.
func (c *wireConn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	c.written.Add(int64(n))
	return n, err
}

func (c *wireConn) Close() error {
	c.forget(c)
	return c.Conn.Close()
}

// Reset ends the connection with a RST: unsent bytes are discarded, and the peer's next read or write fails.
func (c *wireConn) Reset() error {
	conn := c.Conn
	if over, ok := conn.(interface{ NetConn() net.Conn }); ok {
		conn = over.NetConn() // below TLS, which would send an alert
	}
	switch conn := conn.(type) {
	case *memConn:
		c.forget(c)
		return conn.Reset()
	case *net.TCPConn:
		c.forget(c)
		// Zero linger makes Close send RST instead of FIN.
		return errors.Join(conn.SetLinger(0), conn.Close())
	default:
		return errors.Join(fmt.Errorf("servertest: a %T can't be reset", c.Conn), c.Close())
	}
}

// arm makes the next request on the connection fail for s.
func (c *wireConn) arm(s *step) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stale = s
}

// disarm returns the step that the connection was armed for, if any.
func (c *wireConn) disarm() *step {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.stale
	c.stale = nil
	return s
}

// wireListener wraps accepted connections and keeps a list of them. net/http no longer owns a hijacked connection,
// which must still be closed with the server.
type wireListener struct {
	net.Listener

	mu       sync.Mutex
	accepted int
	open     map[*wireConn]struct{}
}

func newWireListener(l net.Listener) *wireListener {
	return &wireListener{Listener: l, open: make(map[*wireConn]struct{})}
}

func (l *wireListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.accepted++
	c := &wireConn{Conn: conn, number: l.accepted, forget: l.forget}
	l.open[c] = struct{}{}
	return c, nil
}

func (l *wireListener) forget(c *wireConn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.open, c)
}

// closeConns closes every connection that is still open.
func (l *wireListener) closeConns() {
	l.mu.Lock()
	open := make([]*wireConn, 0, len(l.open))
	for c := range l.open {
		open = append(open, c)
	}
	l.mu.Unlock()
	for _, c := range open {
		_ = c.Close() // it may already be closed
	}
}
