package pgstore_test

import (
	"bytes"
	"context"
	"io"
	"net"
	"sync/atomic"

	"github.com/jackc/pgx/v5/pgxpool"
)

// A wire counts the round trips of a pool's connections. It may call a function before a write.
type wire struct {
	trips   atomic.Int64
	onWrite atomic.Pointer[func(conn *wiredConn)]
}

func (w *wire) under(cfg *pgxpool.Config) {
	cfg.ConnConfig.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, network, addr)
		return &wiredConn{Conn: conn, wire: w}, err
	}
}

// count returns the number of f's round trips.
func (w *wire) count(f func()) int64 {
	before := w.trips.Load()
	f()
	return w.trips.Load() - before
}

// beforeWrite calls f before the next write, once.
func (w *wire) beforeWrite(f func(conn *wiredConn)) { w.onWrite.Store(&f) }

// beforeCommit calls f before the next write that is a COMMIT alone, once.
func (w *wire) beforeCommit(f func(conn *wiredConn)) {
	var again func(*wiredConn)
	again = func(conn *wiredConn) {
		if bytes.HasPrefix(conn.writing, []byte("Q\x00\x00\x00\x0bcommit\x00")) {
			f(conn)
		} else {
			w.beforeWrite(again)
		}
	}
	w.beforeWrite(again)
}

// A wiredConn may be read and written at a time: pgx reads ahead while it writes.
type wiredConn struct {
	net.Conn
	wire  *wire
	asked atomic.Bool // something was written since the last read
	deaf  atomic.Bool // the next response is lost with the connection
	mute  atomic.Bool // no response arrives from now on
	after func()      // called after the write

	writing []byte
}

func (c *wiredConn) Write(p []byte) (int, error) {
	c.writing = p
	if f := c.wire.onWrite.Swap(nil); f != nil {
		(*f)(c)
	}
	if !c.asked.Swap(true) {
		c.wire.trips.Add(1)
	}
	n, err := c.Conn.Write(p)
	if c.after != nil {
		c.after()
		c.after = nil
	}
	return n, err
}

func (c *wiredConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	for err == nil && c.mute.Load() {
		n, err = c.Conn.Read(p)
	}
	c.asked.Store(false)
	if c.deaf.Load() {
		c.Close()
		return 0, io.EOF
	}
	return n, err
}
