package server

import (
	"context"
	"errors"
	"maps"
	"math"
	"net/http"
	"sync"
	"time"

	"github.com/redo-go/redo/internal/wire"
	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/taxonomy"
)

// An execution is one request with a key on its way through the middleware. It is one allocation for nearly everything that the
// way needs.
type execution struct {
	*route
	w       http.ResponseWriter
	r       *http.Request
	key     string
	payload []byte
	started time.Time
	claim   store.Claim
	event   Event
	err     error // what the store said, for the log

	watch
	lease     store.Lease
	own       ownership // nil unless the key is this request's
	takenOver bool
	settled   bool // the record is settled
	body      body
	out       recorder

	mu       sync.Mutex // of what the handler says, from whatever goroutine
	override override
	effect   bool
}

// execute runs the handler, while the key is this request's, and settles the record.
func (c *execution) execute(g store.Grant) {
	c.takenOver = g.Verdict == store.TakenOver
	c.event.To = store.StatePending

	ctx, cancel := context.WithTimeout(c.own.context(), c.timeLimit())
	defer cancel()
	if c.cancelOnDisconnect {
		defer context.AfterFunc(c.r.Context(), cancel)()
	}
	r := c.request(ctx)
	c.out.init(c.w, c.room(), c)

	// A panic, runtime.Goexit and http.ErrAbortHandler go on their way: nothing is recovered, so that the trace
	// is the handler's.
	returned := false
	defer func() {
		if !returned {
			c.abandon()
		}
	}()
	next := c.next
	if c.takenOver {
		var ok bool
		if next, ok = c.successor(ctx, r, g.Record.Meta); !ok {
			returned = true
			return
		}
	}
	began := time.Now()
	next.ServeHTTP(&c.out, r)
	returned = true
	c.duration.add(time.Since(began))
	c.finish(ctx)
}

// request returns the request as the handler sees it: with its body rewound, on a context that outlives the client, and
// without Accept-Encoding, so that what is stored suits a retry that accepts another encoding.
func (c *execution) request(ctx context.Context) *http.Request {
	r := c.r.WithContext(ctx)
	c.rewind(r)
	if _, ok := r.Header["Accept-Encoding"]; ok {
		r.Header = maps.Clone(r.Header)
		delete(r.Header, "Accept-Encoding")
	}
	return r
}

func (c *execution) rewind(r *http.Request) {
	c.body.Reset(c.payload)
	r.Body, r.ContentLength, r.TransferEncoding = &c.body, int64(len(c.payload)), nil
}

// timeLimit is the shorter one of the route's and the client's.
func (c *execution) timeLimit() time.Duration {
	if d, ok := budget(c.r.Header); ok {
		return min(d, c.handlerTimeout)
	}
	return c.handlerTimeout
}

// room is how much of the response is held back until it is recorded. In a transaction it is all of it: the record is not
// committed, nor anything sent, before the handler is done.
func (c *execution) room() int {
	if c.begin != nil {
		return math.MaxInt
	}
	return c.maxResponse
}

// successor says which handler runs after a take-over; not ok means that the request has been answered.
func (c *execution) successor(ctx context.Context, r *http.Request, meta []byte) (next http.Handler, ok bool) {
	switch p := c.takeOver; {
	case p.refuse:
		c.own.handBack()
		c.refuse(taxonomy.OutcomeUnknown, "The first request with this key ended without an outcome: read back what it did.")
		return nil, false
	case p.recover != nil:
		next, err := p.recover(ctx, r, c.key, meta)
		if err != nil {
			c.err = err
			c.own.handBack()
			c.refuse(taxonomy.Unavailable, "What became of the first request with this key can't be found out now.")
			return nil, false
		}
		if next != nil {
			c.rewind(r)
			return next, true
		}
	}
	c.rewind(r)
	return c.next, true
}

// finish settles the record by what the handler did, and only then answers.
func (c *execution) finish(ctx context.Context) {
	if c.settled || c.out.mode == discarding {
		return
	}
	override, effect := c.said()
	if c.out.silent() && ctx.Err() != nil && override == overrideNone {
		// A handler that gives up when its time is over has said nothing, which is not the 200 that net/http
		// would make of it.
		c.timedOut(ctx)
		return
	}
	c.out.finish()
	c.event.Status = c.out.status
	s := endingOf(c.out.status, override, effect, c.storeServerErrors)
	undo := undoes(s, override, effect)
	if c.out.mode == passing {
		// It was to be released when it grew too large, and the client has it. The handler may since have said more.
		if s == settleRelease {
			_ = c.own.giveBack()
		} else {
			_ = c.record(s, undo, wire.AppendTombstone(nil, c.out.status))
		}
		return
	}
	if s == settleRelease {
		err := c.own.giveBack()
		if errors.Is(err, store.ErrTxEnded) || errors.Is(err, store.ErrLost) && c.out.status < 400 {
			c.answerLost(err)
			return
		}
		c.out.send(false, true)
		return
	}
	result, kept := c.out.envelope(c.maxResponse)
	if err := c.record(s, undo, result); err != nil {
		c.answerLost(err)
		return
	}
	c.out.send(kept, true)
}

// overflow implements capture's question: the record is settled before the first byte goes out, as ever, and says
// that the response was not kept.
func (c *execution) overflow() captureMode {
	override, effect := c.said()
	s := endingOf(c.out.status, override, effect, c.storeServerErrors)
	if s != settleRelease {
		c.event.Status = c.out.status
		if err := c.record(s, false, wire.AppendTombstone(nil, c.out.status)); err != nil {
			c.answerLost(err)
			return discarding
		}
	}
	c.out.send(false, false)
	return passing
}

// abandon settles the record of a handler that did not return. An effect that was made is never run again: a retry
// learns that it was made and that there is no response to show. Its writes in a transaction may be half of what was to be
// written, and are undone: a retry then learns that nobody knows.
func (c *execution) abandon() {
	c.event.Status = http.StatusInternalServerError
	if c.settled || c.out.mode == discarding {
		return
	}
	if _, effect := c.said(); !effect {
		_ = c.own.giveBack()
		return
	}
	status := c.out.status
	if status < 200 {
		status = http.StatusInternalServerError
	}
	_ = c.record(settleComplete, true, c.own.unfinished(status))
}

// timedOut answers for a handler that returned without a word after its context had ended.
func (c *execution) timedOut(ctx context.Context) {
	lost := errors.Is(context.Cause(ctx), store.ErrLost)
	err := c.own.giveBack()
	switch {
	case errors.Is(err, store.ErrTxEnded):
		c.answerLost(err)
		return
	case lost || errors.Is(err, store.ErrLost):
		c.answerLost(store.ErrLost)
		return
	}
	c.out.withdraw()
	c.refuse(taxonomy.Timeout, "The request was given up when its time was over.")
}

// answerLost answers when the outcome of a handler that has run is not in the store. The client never sees a success that
// a later replay could contradict.
func (c *execution) answerLost(err error) {
	c.err = err
	detail := "The outcome could not be recorded. The same request will tell it, or find it out."
	switch {
	case errors.Is(err, errRolledBack):
		detail = "The outcome could not be committed. Nothing was done."
	case errors.Is(err, store.ErrLost):
		detail = "Another request took the key over. The same request will tell its outcome."
	}
	c.out.withdraw()
	c.refuse(taxonomy.Unavailable, detail)
}

// runUntracked runs the handler as if there were no store, which the route has asked for.
func (c *execution) runUntracked() {
	c.event.Kind, c.event.Code = FailedOpen, taxonomy.Unavailable
	r := c.r.WithContext(context.WithValue(c.r.Context(), callKey{}, c))
	c.rewind(r)
	c.next.ServeHTTP(c.w, r)
}

// said returns what the handler has said of its outcome so far.
func (c *execution) said() (override, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.override, c.effect
}
