package servertest

import (
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// pipeBuffer is the number of bytes that one direction holds before a writer waits. net/http writes a request and
// reads its response from different goroutines. An unbuffered pipe would therefore deadlock where a socket does
// not.
const pipeBuffer = 64 << 10

// newPipe returns the two ends of a connection in memory. All its waits use one condition variable, which a
// synctest bubble counts as durably blocked. Its deadlines are timers, which follow the bubble's clock.
func newPipe(client, server memAddr) (*memConn, *memConn) {
	p := &pipe{}
	p.changed.L = &p.mu
	p.ends[0].addr, p.ends[1].addr = client, server
	return &memConn{p: p, own: &p.ends[0], peer: &p.ends[1]}, &memConn{p: p, own: &p.ends[1], peer: &p.ends[0]}
}

type pipe struct {
	mu      sync.Mutex
	changed sync.Cond
	reset   bool // either end was reset: both ends see it, and writes fail
	ends    [2]pipeEnd
}

// pipeEnd is guarded by its pipe's mutex.
type pipeEnd struct {
	addr        memAddr
	incoming    []byte // written by the peer, not yet read
	closed      bool
	read, write pipeDeadline
}

// memConn is one end of a pipe. It behaves like a TCP connection on Linux. After a reset, bytes that arrived
// before can still be read. Then reading and writing fail with ECONNRESET. After the peer's Close, reading ends
// with io.EOF and writing fails with EPIPE.
type memConn struct {
	p         *pipe
	own, peer *pipeEnd
}

func (c *memConn) Read(b []byte) (int, error) {
	c.p.mu.Lock()
	defer c.p.mu.Unlock()
	for {
		switch {
		case c.own.closed:
			return 0, c.failed("read", net.ErrClosed)
		case c.own.read.passed:
			return 0, c.failed("read", os.ErrDeadlineExceeded)
		case len(c.own.incoming) > 0:
			n := copy(b, c.own.incoming)
			c.own.incoming = c.own.incoming[n:]
			c.p.changed.Broadcast()
			return n, nil
		case c.p.reset:
			return 0, c.failed("read", os.NewSyscallError("read", syscall.ECONNRESET))
		case c.peer.closed:
			return 0, io.EOF
		}
		c.p.changed.Wait()
	}
}

func (c *memConn) Write(b []byte) (int, error) {
	c.p.mu.Lock()
	defer c.p.mu.Unlock()
	written := 0
	for {
		switch {
		case c.own.closed:
			return written, c.failed("write", net.ErrClosed)
		case c.own.write.passed:
			return written, c.failed("write", os.ErrDeadlineExceeded)
		case c.p.reset:
			return written, c.failed("write", os.NewSyscallError("write", syscall.ECONNRESET))
		case c.peer.closed:
			return written, c.failed("write", os.NewSyscallError("write", syscall.EPIPE))
		}
		n := min(len(b)-written, pipeBuffer-len(c.peer.incoming))
		c.peer.incoming = append(c.peer.incoming, b[written:written+n]...)
		written += n
		c.p.changed.Broadcast()
		if written == len(b) {
			return written, nil
		}
		c.p.changed.Wait()
	}
}

// Close closes this end. The peer reads the bytes written before, then io.EOF.
func (c *memConn) Close() error {
	c.p.mu.Lock()
	defer c.p.mu.Unlock()
	if c.own.closed {
		return c.failed("close", net.ErrClosed)
	}
	c.close()
	return nil
}

// Reset ends the connection like a RST.
func (c *memConn) Reset() error {
	c.p.mu.Lock()
	defer c.p.mu.Unlock()
	if c.own.closed {
		return c.failed("reset", net.ErrClosed)
	}
	c.p.reset = true
	c.close()
	return nil
}

func (c *memConn) close() {
	c.own.closed = true
	c.own.incoming = nil
	c.own.read.stop()
	c.own.write.stop()
	c.p.changed.Broadcast()
}

func (c *memConn) LocalAddr() net.Addr  { return c.own.addr }
func (c *memConn) RemoteAddr() net.Addr { return c.peer.addr }

func (c *memConn) SetDeadline(t time.Time) error {
	return c.setDeadline(t, &c.own.read, &c.own.write)
}

func (c *memConn) SetReadDeadline(t time.Time) error { return c.setDeadline(t, &c.own.read) }

func (c *memConn) SetWriteDeadline(t time.Time) error { return c.setDeadline(t, &c.own.write) }

func (c *memConn) setDeadline(t time.Time, deadlines ...*pipeDeadline) error {
	c.p.mu.Lock()
	defer c.p.mu.Unlock()
	if c.own.closed {
		return c.failed("set", net.ErrClosed)
	}
	for _, d := range deadlines {
		d.set(c.p, t)
	}
	c.p.changed.Broadcast()
	return nil
}

func (c *memConn) failed(op string, err error) error {
	return &net.OpError{Op: op, Net: memNetwork, Source: c.own.addr, Addr: c.peer.addr, Err: err}
}

// pipeDeadline is guarded by its pipe's mutex.
type pipeDeadline struct {
	passed bool
	timer  *time.Timer
}

func (d *pipeDeadline) set(p *pipe, t time.Time) {
	d.stop()
	d.passed = false
	if t.IsZero() {
		return
	}
	left := time.Until(t)
	if left <= 0 {
		d.passed = true
		return
	}
	var timer *time.Timer
	timer = time.AfterFunc(left, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if d.timer != timer {
			return // replaced while it was firing
		}
		d.passed = true
		p.changed.Broadcast()
	})
	d.timer = timer
}

func (d *pipeDeadline) stop() {
	if d.timer != nil {
		d.timer.Stop()
		d.timer = nil
	}
}

const memNetwork = "memory"

// memAddr is an address in memory, such as "memory:3".
type memAddr string

func (memAddr) Network() string  { return memNetwork }
func (a memAddr) String() string { return string(a) }
