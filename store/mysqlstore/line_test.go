package mysqlstore_test

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"sync/atomic"
	"testing"

	"github.com/go-sql-driver/mysql"
)

// A line carries the connections of a store's pool to the server. It counts requests, and can lose one.
type line struct {
	sent atomic.Int64
	lose atomic.Pointer[loss]
}

// A loss breaks the connection at the next request that contains the text: before the server gets it, or after the
// server has responded. With open, the connection stays open.
type loss struct {
	text string // after \x03 it is a statement's beginning
	done bool   // the server gets the request
	open func() // the connection stays open, and open is called when the request is sent
}

var lines atomic.Int64

// through makes a pool's connections use the line.
func (l *line) through(t testing.TB) func(*mysql.Config) {
	name := fmt.Sprint("line", lines.Add(1))
	mysql.RegisterDialContext(name, func(ctx context.Context, addr string) (net.Conn, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
		if err != nil {
			return nil, err
		}
		return &onLine{Conn: conn, line: l}, nil
	})
	t.Cleanup(func() { mysql.DeregisterDialContext(name) })
	return func(cfg *mysql.Config) { cfg.Net = name }
}

type onLine struct {
	net.Conn
	line *line
}

func (c *onLine) Write(b []byte) (int, error) {
	c.line.sent.Add(1)
	lost := c.line.lose.Load()
	if lost == nil || !bytes.Contains(b, []byte(lost.text)) || !c.line.lose.CompareAndSwap(lost, nil) {
		return c.Conn.Write(b)
	}
	if lost.open != nil {
		lost.open()
	} else if !lost.done {
		_ = c.Conn.Close()
	}
	switch {
	case !lost.done:
		return len(b), nil // into a buffer that is never sent
	case lost.open != nil:
		return c.Conn.Write(b)
	}
	n, err := c.Conn.Write(b)
	if err == nil {
		_, err = c.Conn.Read(make([]byte, 1<<16))
	}
	_ = c.Conn.Close()
	return n, err
}

// requests counts the round trips of f.
func (l *line) requests(f func()) int64 {
	before := l.sent.Load()
	f()
	return l.sent.Load() - before
}
