package pgstore_test

import (
	"bytes"
	"context"
	"io"
	"net"
	"sync/atomic"

	"github.com/jackc/pgx/v5/pgxpool"
)

// A wire is what a pool's connections go over: it counts round trips, and may call something when a COMMIT is about to
// be sent.
type wire struct {
	trips    atomic.Int64
	onCommit atomic.Pointer[func(conn *wiredConn)]
}

func (w *wire) under(cfg *pgxpool.Config) {
	cfg.ConnConfig.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, network, addr)
		return &wiredConn{Conn: conn, wire: w}, err
	}
}

// count is how many round trips f makes.
func (w *wire) count(f func()) int64 {
	before := w.trips.Load()
	f()
	return w.trips.Load() - before
}

// atCommit calls f at the next COMMIT, once.
func (w *wire) atCommit(f func(conn *wiredConn)) { w.onCommit.Store(&f) }

// A wiredConn may be read and written at a time: pgx reads ahead while it writes.
type wiredConn struct {
	net.Conn
	wire  *wire
	asked atomic.Bool // something was written since the last read
	deaf  atomic.Bool // the next answer is lost
	after func()      // called when what is being written has been
}

func (c *wiredConn) Write(p []byte) (int, error) {
	if bytes.HasPrefix(p, []byte("Q\x00\x00\x00\x0bcommit\x00")) {
		if f := c.wire.onCommit.Swap(nil); f != nil {
			(*f)(c)
		}
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
	c.asked.Store(false)
	if c.deaf.Load() {
		c.Close()
		return 0, io.EOF
	}
	return n, err
}
