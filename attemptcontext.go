package redo

import (
	"context"
	"net/http/httptrace"
	"time"
)

// An attempt is the context of its own request: it ends when its time is up, when the caller's context ends, or
// when its response has been read. It is written out, rather than put together from package context's pieces,
// because an attempt is the hot path: this form costs one timer and no further allocation until somebody waits
// for it, and it answers the transport's question for a trace by itself.

// begin starts the attempt's clock.
func (a *attempt) begin(parent context.Context) {
	a.parent = parent
	a.deadline = a.start.Add(a.budget)
	a.timer = time.AfterFunc(a.budget, a.expire)
	switch {
	case parent.Err() != nil:
		a.parentEnded() // now: AfterFunc would do so in a goroutine, and the request could overtake it
	case parent.Done() != nil:
		a.unlink = context.AfterFunc(parent, a.parentEnded)
	}
}

func (a *attempt) expire() { a.cancel(context.DeadlineExceeded, ErrAttemptTimeout) }

func (a *attempt) parentEnded() { a.cancel(a.parent.Err(), context.Cause(a.parent)) }

// end releases what the attempt holds.
func (a *attempt) end() {
	a.timer.Stop()
	if a.unlink != nil {
		a.unlink()
	}
	a.cancel(context.Canceled, context.Canceled)
}

// stopClock ends the attempt's timeout without ending its context, which the response's body still needs. It
// returns false when the attempt has timed out already, or is about to: a timer that has fired can't be called back.
// It is called once.
func (a *attempt) stopClock() bool { return a.timer.Stop() }

// why returns the cause of the attempt's end, nil while it has not ended.
func (a *attempt) why() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.cause
}

func (a *attempt) cancel(err, cause error) {
	a.mu.Lock()
	if a.err != nil {
		a.mu.Unlock()
		return
	}
	a.err, a.cause = err, cause
	if a.done == nil {
		a.done = closedChan
	} else {
		close(a.done)
	}
	after := a.after
	a.after = nil
	a.mu.Unlock()
	for _, f := range after {
		go (*f)()
	}
}

var closedChan = func() chan struct{} { c := make(chan struct{}); close(c); return c }()

// Deadline returns the end of the attempt's time, or the caller's deadline when that is earlier.
func (a *attempt) Deadline() (time.Time, bool) {
	if d, ok := a.parent.Deadline(); ok && d.Before(a.deadline) {
		return d, true
	}
	return a.deadline, true
}

// Done returns the channel that is closed when the attempt ends.
func (a *attempt) Done() <-chan struct{} {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.done == nil {
		a.done = make(chan struct{})
	}
	return a.done
}

// Err returns why the attempt ended, as package context has it.
func (a *attempt) Err() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.err
}

// Value returns the caller's values. Asked for a client trace, the attempt gives one that counts its connections,
// and that calls the caller's own trace too.
func (a *attempt) Value(key any) any {
	if key == traceKey {
		return a.clientTrace()
	}
	return a.parent.Value(key)
}

// AfterFunc runs f in its own goroutine when the attempt ends. Package context looks for it before it starts a
// goroutine to watch a context that is not its own.
func (a *attempt) AfterFunc(f func()) (stop func() bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.err != nil {
		go f()
		return func() bool { return false }
	}
	a.after = append(a.after, &f)
	return func() bool {
		a.mu.Lock()
		defer a.mu.Unlock()
		for i, g := range a.after {
			if g == &f {
				a.after = append(a.after[:i], a.after[i+1:]...)
				return true
			}
		}
		return false
	}
}

// clientTrace returns the attempt's trace. A transport that asks for it reports its connections.
func (a *attempt) clientTrace() *httptrace.ClientTrace {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.trace == nil {
		own := &httptrace.ClientTrace{GotConn: a.gotConn}
		a.trace = httptrace.ContextClientTrace(httptrace.WithClientTrace(a.parent, own))
	}
	return a.trace
}

func (a *attempt) gotConn(httptrace.GotConnInfo) { a.conns.Add(1) }

// traceKey is the context key under which a transport looks for its trace. Package httptrace does not export
// it, but asks whatever context it is given.
var traceKey = func() any {
	spy := &keySpy{Context: context.Background()}
	httptrace.ContextClientTrace(spy)
	return spy.key
}()

type keySpy struct {
	context.Context
	key any
}

func (s *keySpy) Value(key any) any {
	s.key = key
	return nil
}
