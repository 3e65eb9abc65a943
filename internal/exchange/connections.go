package exchange

import (
	"context"
	"net/http/httptrace"
	"sync"
	"sync/atomic"
	"time"
)

// Connections counts the connections of the exchanges of one call, which follow each other. Its zero value is valid.
type Connections struct {
	trace httptrace.ClientTrace
	asked atomic.Int32 // that the transport asked for
	got   atomic.Int32 // that it got: each may have carried a request

	mu     sync.Mutex
	ctx    context.Context // of the request that the transport sends
	before int32           // of got, before that request
}

// net/http sends a request again without a pause and without a limit if an HTTP/2 server refuses or resets it on each
// new connection (golang/go#52459). The server gets thousands of them, and the client's machine runs out of ports.
const (
	freeSends  = 3                     // of one request, without a pause before
	firstPause = 50 * time.Millisecond // doubled for each further one
	maxPause   = time.Second
)

// Watch returns a context under which a transport's connections are counted. traced is true if the transport reports
// them all to net/http/httptrace. A transport that sends one request more than freeSends times pauses before each
// further time.
func (c *Connections) Watch(ctx context.Context, traced bool) context.Context {
	c.trace.GotConn = func(httptrace.GotConnInfo) { c.pause(c.got.Add(1)) }
	if traced {
		c.trace.GetConn = func(string) { c.asked.Add(1) }
	}
	return httptrace.WithClientTrace(ctx, &c.trace)
}

// begin prepares the count for one request, whose context is ctx.
func (c *Connections) begin(ctx context.Context) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ctx, c.before = ctx, c.got.Load()
}

// pause waits before the n-th connection of the call is used, or until the request's context ends.
func (c *Connections) pause(n int32) {
	c.mu.Lock()
	ctx, again := c.ctx, n-c.before-freeSends
	c.mu.Unlock()
	if again <= 0 {
		return
	}
	timer := time.NewTimer(min(firstPause<<min(again-1, 5), maxPause))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
