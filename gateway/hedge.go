package gateway

import (
	"context"
	"io"
	"net/http"
	"time"
)

// A hedger sends a GET or HEAD a second time if there is no response after a delay. The first response with a status
// below 500 wins. If there is none, the last response does. A request for another protocol is sent once.
type hedger struct {
	next  http.RoundTripper
	delay time.Duration
}

// RoundTrip implements http.RoundTripper.
func (h *hedger) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Method != http.MethodGet && req.Method != http.MethodHead || req.Body != nil && req.Body != http.NoBody ||
		req.Header.Get("Upgrade") != "" {
		return h.next.RoundTrip(req)
	}
	var cancels [2]context.CancelFunc
	replies := make(chan reply, len(cancels))
	sent := 0
	send := func() {
		ctx, cancel := context.WithCancel(reported(req.Context())) // a report of its own: the other request may end later
		leg := sent
		cancels[leg] = cancel
		sent++
		go func() {
			resp, err := h.next.RoundTrip(req.Clone(ctx))
			replies <- reply{leg, resp, err}
		}()
	}
	send()
	late := time.After(h.delay)
	for ended := 0; ; {
		select {
		case <-late:
			send()
		case r := <-replies:
			ended++
			switch {
			case ended == sent:
			case r.wins():
				cancels[1-r.leg]()
				go func() { (<-replies).discard() }()
			default:
				r.discard()
				cancels[r.leg]()
				continue
			}
			return r.hold(cancels[r.leg])
		}
	}
}

// A reply is the end of one of the two requests.
type reply struct {
	leg  int // 0 or 1
	resp *http.Response
	err  error
}

func (r reply) wins() bool { return r.err == nil && r.resp.StatusCode < http.StatusInternalServerError }

func (r reply) discard() {
	if r.err == nil {
		_ = r.resp.Body.Close()
	}
}

// hold returns the reply. The context of the request ends when the body is closed.
func (r reply) hold(cancel context.CancelFunc) (*http.Response, error) {
	if r.err != nil {
		cancel()
		return nil, r.err
	}
	r.resp.Body = heldBody{r.resp.Body, cancel}
	return r.resp, nil
}

// A heldBody ends its request's context when it is closed.
type heldBody struct {
	io.ReadCloser
	cancel context.CancelFunc
}

// Close implements io.Closer.
func (b heldBody) Close() error {
	defer b.cancel()
	return b.ReadCloser.Close()
}
