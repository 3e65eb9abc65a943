package servertest

import (
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
)

// A wireConn is a connection as the server sees it. It counts what is really written, so that a fault can tell
// what reached the wire, and it can be reset.
type wireConn struct {
	net.Conn
	number  int // from 1, in the order of acceptance
	written atomic.Int64
	forget  func(*wireConn)

	mu    sync.Mutex
	stale *step // the StaleKeepAlive that makes the next request on this connection die
}

// Write counts. No other way to write, such as io.ReaderFrom, is offered, so that every byte passes here.
func (c *wireConn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	c.written.Add(int64(n))
	return n, err
}

func (c *wireConn) Close() error {
	c.forget(c)
	return c.Conn.Close()
}

// Reset ends the connection with a RST: unsent bytes are thrown away and the peer's next read or write fails.
func (c *wireConn) Reset() error {
	switch conn := c.Conn.(type) {
	case *memConn:
		c.forget(c)
		return conn.Reset()
	case *net.TCPConn:
		// Zero linger makes Close send RST instead of FIN.
		return errors.Join(conn.SetLinger(0), c.Close())
	default:
		return fmt.Errorf("servertest: a %T can't be reset", c.Conn)
	}
}

// arm makes the next request on the connection die for s.
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

// A wireListener wraps what it accepts, and keeps track of it: a hijacked connection is out of net/http's hands,
// and still has to be closed with the server.
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
		_ = c.Close() // it may have been closed meanwhile
	}
}
