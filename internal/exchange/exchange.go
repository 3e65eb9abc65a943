package exchange

import (
	"context"
	"errors"
	"net"
	"net/http"
	"slices"
	"time"

	"github.com/redo-go/redo/taxonomy"
)

// An Exchange is one request on the wire, with its redirects and its response. Set the exported fields, call Begin,
// send the request with Send, and read the response with Receive. One goroutine uses it.
type Exchange struct {
	// Transport sends the request.
	Transport http.RoundTripper
	// Connections counts the connections of Transport. Its Watch made the context that Begin gets.
	Connections *Connections
	// Outer is true if an http.Client above sets the time limit and follows the redirects of requests without a key.
	Outer bool
	// Keyed is true if the request carries a key. The key has a meaning at its own origin only.
	Keyed bool
	// NoRedirects is true if every redirect is returned to the caller.
	NoRedirects bool
	// Body is the body of the request.
	Body *Body
	// Private holds the names of headers that are never sent to another origin.
	Private map[string]bool
	// Lost reports whether a transport has replaced the request of its response by an unrelated one.
	Lost func(*http.Request) bool

	ctx    context.Context // the request's; nil before Begin
	clock  clock
	handed bool  // the transport was called
	asked  int32 // of Connections, before the exchange
	got    int32 // of Connections, before the exchange
	hops   int   // redirects that were followed
}

// A Refused error ends an exchange by this client's own decision.
type Refused struct {
	Code   taxonomy.Code
	Effect taxonomy.Effect
	Err    error
}

// Error returns the text of Err.
func (e *Refused) Error() string { return e.Err.Error() }

// Unwrap returns Err.
func (e *Refused) Unwrap() error { return e.Err }

// ErrNoResponse reports a transport that broke the rule of http.RoundTripper.
var ErrNoResponse = errors.New("redo: the transport returned neither a response nor an error")

// Begin starts the time limit, and returns the context of the exchange's request. A limit of zero sets none.
func (x *Exchange) Begin(ctx context.Context, limit time.Duration) context.Context {
	if limit > 0 {
		ctx, x.clock = startClock(ctx, limit)
	}
	x.ctx = ctx
	return ctx
}

// Authorize calls the caller's credentials function on the exchange's request, and records which headers it set. The
// function may change header and URL. A nil function does nothing. It is not called for a request with which an
// http.Client above follows a redirect to another origin.
func (x *Exchange) Authorize(out *http.Request, credentials func(*http.Request) error) error {
	if credentials == nil || strayed(out) {
		return nil
	}
	before, u := out.Header, *out.URL
	out.Header = before.Clone() // Header.Add would write into the caller's values
	out.URL = &u                // a function may sign it
	if err := credentials(out); err != nil {
		return err
	}
	x.Private = map[string]bool{}
	for name, values := range out.Header {
		x.Private[name] = !slices.Equal(before[name], values)
	}
	return CheckHeader(out.Header)
}

// Send sends r and follows redirects. Its body is attached already. The error is the transport's, the cause of a
// context that has ended, or a *[Refused].
func (x *Exchange) Send(r *http.Request) (*http.Response, error) {
	if x.ctx.Err() != nil {
		closeBody(r)
		return nil, context.Cause(x.ctx)
	}
	x.handed, x.asked, x.got = true, x.Connections.asked.Load(), x.Connections.got.Load()
	for {
		// Some transports rewrite the URL in place, for example to choose a host, although http.RoundTripper forbids it.
		// It is the caller's, and the next attempt's. A copy for each attempt would be an allocation for every caller.
		at, u := r.URL, *r.URL
		x.Connections.begin(x.ctx)
		resp, err := x.Transport.RoundTrip(r)
		if *at != u {
			*at = u
		}
		switch {
		case err != nil:
			return nil, err
		case resp == nil:
			return nil, ErrNoResponse
		case resp.Body == nil:
			resp.Body = http.NoBody
		}
		if resp.Request == nil || x.Lost(resp.Request) {
			resp.Request = r
		}
		if resp.StatusCode/100 != 3 {
			return resp, nil
		}
		next, err := x.follow(r, resp)
		if err != nil || next == nil {
			return resp, err
		}
		r = next
		x.hops++
	}
}

// explain adds ErrTimeout to an error that the exchange's own clock caused.
func (x *Exchange) explain(err error) error {
	if err == nil || x.ctx == nil || !errors.Is(context.Cause(x.ctx), ErrTimeout) || errors.Is(err, ErrTimeout) {
		return err
	}
	if errors.Is(err, context.Canceled) {
		return ErrTimeout // the clock cancelled the context, and no caller
	}
	return errors.Join(ErrTimeout, err)
}

// Sends returns the number of connections that may have carried the request.
func (x *Exchange) Sends() int {
	if !x.handed {
		return 0
	}
	return int(x.Connections.got.Load() - x.got)
}

// Resent reports whether net/http sent the request more than once.
func (x *Exchange) Resent() bool { return x.Sends() > 1+x.hops }

// Sent reports whether the request was, or may have been, written. err is the error of Send. net/http's transport did
// not write a request for which it got no connection. For any other transport only an error of a dial, of a proxy's
// connection or of DNS proves that nothing was written.
func (x *Exchange) Sent(err error) bool {
	switch {
	case !x.handed:
		return false
	case err == nil || x.Sends() > 0:
		return true
	case x.Connections.asked.Load() > x.asked:
		return false
	}
	if op, ok := errors.AsType[*net.OpError](err); ok {
		switch op.Op {
		case "dial", "proxyconnect", "socks connect": // net/http's names
			return false
		}
	}
	_, unknownHost := errors.AsType[*net.DNSError](err)
	return !unknownHost
}
