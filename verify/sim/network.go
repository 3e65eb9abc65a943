package sim

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// A network carries requests to the processes of a host.
type network struct {
	world *world
	mu    sync.Mutex
	hosts map[string][]*process
}

type serveFunc func(http.ResponseWriter, *http.Request)

// Errors of a wire.
var (
	errRefused = &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	errReset   = &net.OpError{Op: "read", Net: "tcp", Err: syscall.ECONNRESET}
)

// listen adds a process to its host, in the place of the one that it replaces.
func (n *network) listen(p *process, place int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for len(n.hosts[p.host]) <= place {
		n.hosts[p.host] = append(n.hosts[p.host], nil)
	}
	n.hosts[p.host][place] = p
}

// A wire is the way of one process to the network. It implements http.RoundTripper.
type wire struct {
	*process
}

// A reply is a server's response.
type reply struct {
	status int
	header http.Header
	body   []byte
	broken bool // the connection ended in front of the response
}

// RoundTrip implements http.RoundTripper.
func (c wire) RoundTrip(req *http.Request) (*http.Response, error) {
	w, ctx := c.world, req.Context()
	var body []byte
	if req.Body != nil {
		var err error
		body, err = io.ReadAll(req.Body)
		_ = req.Body.Close()
		if err != nil {
			return nil, err
		}
	}
	call := w.oracle.sent(c.process, req, body)
	r, err := c.exchange(ctx, req, body, call)
	if err != nil {
		w.note(c.name, "%s gets %v", call, err)
		w.oracle.received(req, nil)
		return nil, err
	}
	w.note(c.name, "%s gets %d %s", call, r.status, r.header.Get("Idempotency-Status"))
	resp := &http.Response{
		Status: strconv.Itoa(r.status), StatusCode: r.status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: r.header, ContentLength: int64(len(r.body)), Request: req,
		Body: io.NopCloser(bytes.NewReader(r.body)),
	}
	if rng := w.draw(c.name + "cut"); len(r.body) > 0 && w.happens(rng, w.plan.cut) {
		w.note(c.name, "%s: the body breaks off", call)
		resp.Body = io.NopCloser(io.MultiReader(bytes.NewReader(r.body[:rng.IntN(len(r.body))]), broken{}))
	}
	w.oracle.received(req, &r)
	return resp, nil
}

// broken is the end of a body that broke off.
type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

// exchange carries a request to a server, and its response back.
func (c wire) exchange(ctx context.Context, req *http.Request, body []byte, call string) (reply, error) {
	w, p := c.world, c.world.plan
	if err := c.edge(ctx, "send"+call); err != nil {
		return reply{}, err
	}
	rng := w.draw(c.name + "net" + call)
	w.net.mu.Lock()
	servers := w.net.hosts[req.URL.Host]
	to := servers[rng.IntN(len(servers))]
	w.net.mu.Unlock()
	dead, _ := to.alive()
	switch {
	case dead, w.happens(rng, p.refused):
		return reply{}, errRefused
	case w.happens(rng, p.limited):
		// A gateway's limiter refuses, in front of the server.
		h := http.Header{"Content-Type": {"text/plain"}, "Retry-After": {strconv.Itoa(1 + rng.IntN(3))}}
		return reply{status: []int{429, 503}[rng.IntN(2)], header: h, body: []byte("slow down")}, nil
	case w.happens(rng, p.lostRequest):
		return reply{}, c.lost(ctx, rng.IntN(100) < p.hangs)
	}
	twice := w.happens(rng, p.twice)
	if twice {
		// A proxy sends the request twice, and loses one of the responses.
		w.note(c.name, "%s is sent twice", call)
		other, late := servers[rng.IntN(len(servers))], rng.IntN(2) == 0
		go func() {
			if !late || other.edge(context.Background(), "late"+call) == nil {
				_ = other.receive(context.Background(), req, body, call+"'")
			}
		}()
		if err := c.edge(ctx, "twice"+call); err != nil {
			return reply{}, err
		}
	}
	done, cancel := context.WithCancel(context.Background()) // the values of ctx stay in the client
	replies := make(chan reply, 1)
	go func() { replies <- to.receive(done, req, body, call) }()
	defer cancel()
	var r reply
	select {
	case r = <-replies:
	case <-to.died:
		r.broken = true
	case <-ctx.Done():
		return reply{}, context.Cause(ctx)
	case <-w.over:
		return reply{}, errOver
	}
	if err := c.edge(ctx, "receive"+call); err != nil {
		return reply{}, err
	}
	rng = w.draw(c.name + "back" + call)
	switch {
	case r.broken, twice && r.status == http.StatusTooManyRequests:
		return reply{}, errReset // the proxy knows that the other request may have been applied
	case w.happens(rng, p.lostResponse):
		return reply{}, c.lost(ctx, rng.IntN(100) < p.hangs)
	}
	return r, nil
}

// lost is the end of an exchange that the network has lost: a reset, or nothing until the client gives up.
func (c wire) lost(ctx context.Context, hangs bool) error {
	if !hangs {
		return errReset
	}
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-c.world.over:
		return errOver
	case <-time.After(time.Minute):
		return errReset
	}
}

// receive runs the server's handler for a request.
func (p *process) receive(ctx context.Context, req *http.Request, body []byte, call string) (r reply) {
	if p.edge(context.Background(), "arrive"+call) != nil {
		return reply{broken: true}
	}
	in := httptest.NewRequestWithContext(withCall(ctx, call), req.Method, req.URL.String(), bytes.NewReader(body))
	in.Header, in.Host, in.RemoteAddr = req.Header.Clone(), req.URL.Host, "192.0.2.1:1234"
	out := httptest.NewRecorder()
	defer func() {
		if cause := recover(); cause != nil {
			if cause != http.ErrAbortHandler { //nolint:errorlint // net/http compares it too
				panic(cause)
			}
			r = reply{broken: true}
		}
	}()
	p.serve(out, in)
	resp := out.Result()
	b, _ := io.ReadAll(resp.Body) // of a recorder
	return reply{status: resp.StatusCode, header: resp.Header, body: b}
}

type callKey struct{}

// withCall names the request whose handler runs.
func withCall(ctx context.Context, call string) context.Context {
	return context.WithValue(ctx, callKey{}, call)
}

func callOf(ctx context.Context) string {
	call, _ := ctx.Value(callKey{}).(string)
	return call
}
