package redo

import (
	"context"
	"sync"

	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/taxonomy"
)

// flights holds the calls of stored operations that are under way in this client, by name. Its zero value is empty.
type flights struct {
	mu sync.Mutex
	m  map[string]*flight
}

// A flight is one call for which other calls of the same operation wait.
type flight struct {
	fingerprint store.Fingerprint
	done        chan struct{} // closed when the call has ended
	err         *Error        // set before done is closed
}

// join returns the operation's flight. If first is true, the caller makes the call and then calls leave.
func (f *flights) join(name string, fingerprint store.Fingerprint) (fl *flight, first bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if fl := f.m[name]; fl != nil {
		return fl, false
	}
	if f.m == nil {
		f.m = map[string]*flight{}
	}
	fl = &flight{fingerprint: fingerprint, done: make(chan struct{})}
	f.m[name] = fl
	return fl, true
}

// leave ends a flight with the call's error, and wakes the callers that wait for it.
func (f *flights) leave(name string, fl *flight, err *Error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	fl.err = err
	delete(f.m, name)
	close(fl.done)
}

// underWay reports whether a call of the operation is running in this client.
func (f *flights) underWay(name string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.m[name] != nil
}

// shared returns the error that ended the flight, for a caller that waited with the same payload. It returns nil if
// that caller must make its own call, since the store has the response or the first caller gave up.
func (fl *flight) shared(fingerprint store.Fingerprint) *Error {
	if fl.err == nil || fl.fingerprint != fingerprint || fl.err.Code.In(taxonomy.Caller) {
		return nil
	}
	e := *fl.err
	if fl.err.Response != nil {
		resp := *fl.err.Response
		resp.Header = resp.Header.Clone()
		resp.Body = errorBody(fl.err.head, fl.err.cut)
		e.Response = &resp
	}
	return &e
}

// shareFlight makes the call with f, or waits for the flight of the same operation in this client.
func (k *call) shareFlight(fingerprint store.Fingerprint, f func() outcome) outcome {
	c := k.client
	if l := loopOf(k.req.Context()); l != nil && l.call.client == c && l.call.op.name == k.op.name {
		return f() // called within an attempt of this operation: the call would wait for itself
	}
	for {
		fl, first := c.flights.join(k.op.name, fingerprint)
		if first {
			var out outcome
			func() {
				defer func() { c.flights.leave(k.op.name, fl, out.err) }()
				out = f()
			}()
			return out
		}
		select {
		case <-fl.done:
		case <-k.ctx.Done():
			return k.storeFailure(k.ctx.Err(), EffectUnknown)
		case <-k.req.Cancel: //nolint:staticcheck // an http.Client above with a Timeout closes it
			return k.storeFailure(context.Canceled, EffectUnknown)
		}
		if e := fl.shared(fingerprint); e != nil {
			k.op.key = e.Key
			return outcome{resp: e.Response, err: e, effect: e.Effect}
		}
	}
}
