package redo

import (
	"context"
	"net/http/httptrace"
	"time"
)

// An attempt is the context of its own request: it ends when its time is up, when the caller's context ends, or
// when its response has been read. It is written out, rather than put together from package context's pieces,
// because an attempt is the hot path: it starts a timer only when somebody waits for its end, and it answers the
// transport's question for a trace by itself.

// A watch is what it takes to tell those who wait.
type watch struct {
	done   chan struct{}
	timer  *time.Timer
	unlink func() bool // from the parent
	after  []*func()
}

// An ending is how an attempt ended: the error as package context has it, and its cause.
type ending struct{ err, cause error }

var (
	released = &ending{context.Canceled, context.Canceled}
	timeUp   = &ending{context.DeadlineExceeded, ErrAttemptTimeout}
)

// endingOf is how a context that has ended did.
func endingOf(ctx context.Context) *ending { return &ending{ctx.Err(), context.Cause(ctx)} }

// begin makes the attempt a child of parent.
func (a *attempt) begin(parent context.Context) { a.parent = parent }

// deadline is when the attempt's own time is up.
func (a *attempt) deadline() time.Time { return a.start.Add(a.budget) }

// watched starts what notices the attempt's end, and returns it. The mutex is held.
func (a *attempt) watched() *watch {
	if a.watch != nil {
		return a.watch
	}
	a.check()
	a.watch = &watch{done: make(chan struct{})}
	if a.over != nil {
		close(a.watch.done)
		return a.watch
	}
	if !a.stopped {
		a.watch.timer = time.AfterFunc(time.Until(a.deadline()), a.expire)
	}
	if a.parent.Done() != nil {
		a.watch.unlink = context.AfterFunc(a.parent, a.parentEnded)
	}
	return a.watch
}

// check ends an attempt that nobody watches, if it is time. The mutex is held.
func (a *attempt) check() {
	if a.over != nil || a.watch != nil {
		return
	}
	if a.parent.Err() != nil {
		a.over = endingOf(a.parent)
	} else if !a.stopped && !time.Now().Before(a.deadline()) {
		a.over = timeUp
	}
}

func (a *attempt) expire() { a.cancel(timeUp) }

func (a *attempt) parentEnded() { a.cancel(endingOf(a.parent)) }

// end releases what the attempt holds.
func (a *attempt) end() { a.cancel(released) }

// stopClock ends the attempt's timeout without ending its context, which the response's body still needs. It
// returns false when the attempt has timed out already, or is about to: a timer that has fired can't be called back.
// It is called once.
func (a *attempt) stopClock() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.stopped = true
	return a.watch == nil || a.watch.timer == nil || a.watch.timer.Stop()
}

// why returns the cause of the attempt's end, nil while it has not ended.
func (a *attempt) why() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.check()
	if a.over == nil {
		return nil
	}
	return a.over.cause
}

func (a *attempt) cancel(how *ending) {
	a.mu.Lock()
	w := a.watch
	if a.over != nil {
		a.mu.Unlock()
		return
	}
	a.over = how
	if w == nil {
		a.mu.Unlock()
		return
	}
	after := w.after
	w.after = nil
	close(w.done)
	a.mu.Unlock()
	if w.timer != nil {
		w.timer.Stop()
	}
	if w.unlink != nil {
		w.unlink()
	}
	for _, f := range after {
		go (*f)()
	}
}

// Deadline returns the end of the attempt's time, or the caller's deadline when that is earlier.
func (a *attempt) Deadline() (time.Time, bool) {
	own := a.deadline()
	if d, ok := a.parent.Deadline(); ok && d.Before(own) {
		return d, true
	}
	return own, true
}

// Done returns the channel that is closed when the attempt ends.
func (a *attempt) Done() <-chan struct{} {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.watched().done
}

// Err returns why the attempt ended, as package context has it.
func (a *attempt) Err() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.check()
	if a.over == nil {
		return nil
	}
	return a.over.err
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
	w := a.watched()
	if a.over != nil {
		go f()
		return func() bool { return false }
	}
	w.after = append(w.after, &f)
	return func() bool {
		a.mu.Lock()
		defer a.mu.Unlock()
		for i, g := range w.after {
			if g == &f {
				w.after = append(w.after[:i], w.after[i+1:]...)
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
