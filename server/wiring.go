package server

import (
	"errors"
	"net/http"
	"runtime"

	"github.com/redo-go/redo/store"
)

// SilentOK stores an empty 200 for a handler that writes nothing, as net/http sends it. Without this option such a
// request gets 500 and an error in the log, and the handler never runs again for its key. Nearly always the framework
// of a silent handler keeps the response elsewhere, or renders an error later. The middleware would then store and
// replay an empty success.
func SilentOK() Option { return optionFunc(func(c *config) { c.silentOK = true }) }

// Mistakes in the wiring of the handler, for the log.
var (
	errSilent = errors.New("server: the handler returned without writing a response: " +
		"does its framework write to another ResponseWriter? If it means to, use SilentOK")
	errAbandoned = errors.New("server: a timeout inside the middleware, such as http.TimeoutHandler, returned while " +
		"the handler was running: use HandlerTimeout, or put it outside")
	errDropped = errors.New("server: the handler panicked inside http.TimeoutHandler, which drops what it had written: " +
		"use HandlerTimeout, or put it outside")
	errNested = errors.New("server: the middleware runs twice for the request, so that it waits for itself: remove one")
)

// refuseSilence ends the request of a handler that has written nothing. Its outcome is not known.
func (c *execution) refuseSilence(o override, effect bool) {
	var err error
	switch {
	case o == overrideRelease && !effect:
		err = c.giveUp(endRelease)
	case o == overrideUnknown && !effect:
		err = c.giveUp(endHandBack)
	case effect:
		err = c.record(endComplete, true, c.own.unfinished(http.StatusInternalServerError))
	default:
		err = c.record(endComplete, true, store.UnknownOutcome().Result)
	}
	c.faulty = true
	if err != nil {
		c.refuseLost(errors.Join(errSilent, err))
		return
	}
	c.err = errSilent
	c.out.withdraw()
	c.refuse(Misconfigured, "The handler wrote no response. Its outcome is not known: read its effect back.")
}

// nested reports whether the handler of an outer middleware holds the request's key, and calls this middleware.
func (c *execution) nested() bool {
	outer := callOf(c.r.Context())
	return outer != nil && outer.records == c.records && outer.claim.ID == c.claim.ID
}

// refuseNested ends a request that would wait for itself. The outer middleware releases the key after a 500.
func (c *execution) refuseNested() {
	c.err, c.faulty = errNested, true
	c.refuse(Misconfigured, "The idempotency middleware runs twice for this route.")
}

// outliveHandler ends the request of a handler that a timeout inside of the middleware has left running. The record
// reports an unknown outcome, because the handler may still make its effect. The client gets the timeout's response.
func (c *execution) outliveHandler() {
	c.faulty = true
	if err := c.record(endComplete, true, store.UnknownOutcome().Result); err != nil {
		c.refuseLost(errors.Join(errAbandoned, err))
		return
	}
	c.err = errAbandoned
	if c.out.mode == holding {
		c.out.send(false, true)
	}
}

// timeoutHandler is the method in which http.TimeoutHandler writes its responses, and repeats the handler's panic.
const timeoutHandler = "net/http.(*timeoutHandler).ServeHTTP"

// A timeoutTrace finds out whether a 503 is that of http.TimeoutHandler for a handler that it has left running. That
// one is written with io.WriteString, or without a body. A response of the handler itself is written with Write.
type timeoutTrace struct {
	inside bool // http.TimeoutHandler wrote the status
	own    bool // the body is the handler's
}

func (t *timeoutTrace) status(status int) {
	if status == http.StatusServiceUnavailable {
		t.inside, _ = callers()
	}
}

func (t *timeoutTrace) write() {
	if t.inside && !t.own {
		inside, byWriteString := callers()
		t.own = inside && !byWriteString
	}
}

// callers reports whether http.TimeoutHandler is among the callers, and whether it called io.WriteString.
func callers() (inside, byWriteString bool) {
	var pcs [64]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs[:])])
	for called := ""; ; {
		f, more := frames.Next()
		if f.Function == timeoutHandler {
			return true, called == "io.WriteString"
		}
		if !more {
			return false, false
		}
		called = f.Function
	}
}

// decides reports whether the policy forbids a second run of the handler without a decision.
func (p TakeOverPolicy) decides() bool { return p.refuse || p.recover != nil }
