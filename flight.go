package redo

import (
	"context"

	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/taxonomy"
)

// A landing is the end of a call for which other calls of the same operation waited.
type landing struct {
	fingerprint store.Fingerprint
	err         *Error
}

// shared returns the error of the first call, for a caller that waited with the same payload. It returns nil if that
// caller must make its own call: the store has the response, or the failure is about the first caller alone.
func (l landing) shared(fingerprint store.Fingerprint) *Error {
	if e := l.err; e == nil || l.fingerprint != fingerprint || e.Code.In(taxonomy.Caller) || e.Code.In(taxonomy.Auth) ||
		e.Code.In(taxonomy.InvalidOperation) || e.Code.In(taxonomy.InFlight) && e.StatusCode == 0 { // see overtaken
		return nil
	}
	return l.err.apart()
}

// shareFlight makes the call with f, or waits for the flight of the same operation in this client.
func (k *call) shareFlight(fingerprint store.Fingerprint, f func() outcome) outcome {
	c := k.client
	if l := loopOf(k.req.Context()); l != nil && l.call.client == c && l.call.op.name == k.op.name {
		return f() // called within an attempt of this operation: the call would wait for itself
	}
	for {
		fl, first := c.flights.Join(k.op.name)
		if first {
			var out outcome
			defer func() { c.flights.Leave(k.op.name, fl, landing{fingerprint, out.err}) }()
			out = f()
			return out
		}
		select {
		case <-fl.Done:
		case <-k.ctx.Done():
			return k.storeFailure(k.ctx.Err(), EffectUnknown)
		case <-k.req.Cancel: //nolint:staticcheck // an http.Client above with a Timeout closes it
			return k.storeFailure(context.Canceled, EffectUnknown)
		}
		if e := fl.Result.shared(fingerprint); e != nil {
			k.op.key = e.Key
			if e.Response != nil { // its request is the first caller's, with that caller's context
				e.Response.Request = k.req.WithContext(context.WithValue(k.ctx, loopKey{}, &loop{call: k}))
			}
			return outcome{resp: e.Response, err: e, effect: e.Effect}
		}
	}
}
