package servertest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"
)

// visit is one pass of a request through the service. A request that is delivered twice makes two visits.
type visit struct {
	x         *exchange
	fails     storeCall             // the store's method that fails for this visit
	served    atomic.Bool           // the visit has ended, and its fault with it
	onReserve func()                // called when the store has judged the visit
	onHandler func(context.Context) // called when the visit reaches the handler
}

type visitKey struct{}

// visitOf returns the visit that a context belongs to. It returns nil if there is none.
func visitOf(ctx context.Context) *visit {
	v, _ := ctx.Value(visitKey{}).(*visit)
	return v
}

// visit returns a copy of the request for one visit.
func (x *exchange) visit(ctx context.Context, v *visit) *http.Request {
	v.x = x
	r := x.r.Clone(context.WithValue(ctx, visitKey{}, v))
	r.Body = io.NopCloser(&requestBody{read: *bytes.NewReader(x.body), err: x.bodyErr})
	return r
}

// requestBody is a body that was read before, with the error that broke it off.
type requestBody struct {
	read bytes.Reader // not embedded: its WriteTo would skip the error
	err  error
}

func (b *requestBody) Read(p []byte) (int, error) {
	n, err := b.read.Read(p)
	if errors.Is(err, io.EOF) && b.err != nil {
		err = b.err
	}
	return n, err
}

// process runs the service to its end, even if the client goes away, and returns its response.
func (x *exchange) process() *answer { return x.deliver(&visit{}) }

func (x *exchange) deliver(v *visit) *answer {
	ctx, cancel := context.WithCancel(context.WithoutCancel(x.r.Context()))
	defer cancel()
	defer context.AfterFunc(x.srv.ctx, cancel)()
	a := newAnswer()
	defer v.served.Store(true)
	x.serve(a, x.visit(ctx, v))
	return a.settle()
}

// processHeld holds the visit in front of the handler.
func (x *exchange) processHeld(d time.Duration) *answer {
	return x.deliver(&visit{onHandler: func(ctx context.Context) {
		x.fired(nil)
		x.wait(ctx, d)
	}})
}

// processTwice makes two visits at the same time. It returns the response of the first one.
func (x *exchange) processTwice() *answer {
	arrived := make(chan struct{}) // the store judged the second, or it is in the handler or has ended
	seen := sync.OnceFunc(func() { close(arrived) })
	second := &visit{onReserve: seen, onHandler: func(context.Context) { seen() }}
	ended := make(chan struct{})
	start := sync.OnceFunc(func() {
		go func() {
			defer close(ended)
			defer seen()
			defer func() {
				if p := recover(); p != nil {
					x.srv.logPanic(p, debug.Stack())
				}
			}()
			x.deliver(second)
		}()
	})
	defer func() { // also when the first visit panics: no goroutine is left behind
		start()
		<-ended
	}()
	return x.deliver(&visit{onHandler: func(ctx context.Context) {
		start()
		select {
		case <-arrived:
		case <-ctx.Done():
		case <-x.srv.ctx.Done():
		}
	}})
}

// atHandler wraps the service's handler.
func atHandler(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if v := visitOf(r.Context()); v != nil && v.onHandler != nil {
			v.onHandler(r.Context())
		}
		h.ServeHTTP(w, r)
	})
}
