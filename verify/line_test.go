package verify

import (
	"errors"
	"math/rand/v2"
	"net"
	"sync/atomic"
)

// A line carries the connections of an engine's handles. While it is worn, it breaks now and then: before a
// request is sent, during it or after it, or while the response is on its way. In the last case the server has
// made the write and the caller does not know.
type line struct{ worn atomic.Bool }

var errBroken = errors.New("verify: the line broke")

func (l *line) over(c net.Conn) net.Conn { return &connection{Conn: c, line: l} }

type connection struct {
	net.Conn
	line *line
}

// breaks is true once in so many times, while the line is worn.
func (l *line) breaks() bool { return l.worn.Load() && rand.IntN(40) == 0 }

func (c *connection) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n > 0 && c.line.breaks() {
		c.Conn.Close()
		return 0, errBroken
	}
	return n, err
}

func (c *connection) Write(b []byte) (int, error) {
	if !c.line.breaks() {
		return c.Conn.Write(b)
	}
	n := 0
	switch rand.IntN(3) {
	case 0:
		n = len(b)
	case 1:
		n = rand.IntN(len(b) + 1)
	}
	n, err := c.Conn.Write(b[:n])
	c.Conn.Close()
	if err == nil && n < len(b) {
		err = errBroken
	}
	return n, err
}
