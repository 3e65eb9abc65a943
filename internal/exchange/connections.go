package exchange

import (
	"context"
	"net/http/httptrace"
	"sync/atomic"
)

// Connections counts the connections of the exchanges of one call, which follow each other. Its zero value is valid.
type Connections struct {
	trace httptrace.ClientTrace
	asked atomic.Int32 // that the transport asked for
	got   atomic.Int32 // that it got: each may have carried a request
}

// Watch returns a context under which a transport's connections are counted. traced is true if the transport reports
// them all to net/http/httptrace.
func (c *Connections) Watch(ctx context.Context, traced bool) context.Context {
	c.trace.GotConn = func(httptrace.GotConnInfo) { c.got.Add(1) }
	if traced {
		c.trace.GetConn = func(string) { c.asked.Add(1) }
	}
	return httptrace.WithClientTrace(ctx, &c.trace)
}
