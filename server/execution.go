package server

import (
	"context"
	"errors"
	"io"
	"maps"
	"math"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/redo-go/redo/internal/wire"
	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/taxonomy"
)

// An execution is the path of one request with a key through the middleware. It holds nearly all state of the path in
// one allocation.
type execution struct {
	*route
	w       http.ResponseWriter
	r       *http.Request
	key     string
	caller  string // the principal, "" if the keys are shared
	payload []byte
	started time.Time
	claim   store.Claim
	nonce   ownerNonce
	event   Event
	err     error // for the log
	faulty  bool  // err is an error in the program, for the log

	leaseTimer
	lease     store.Lease
	asked     time.Time     // when the key was last claimed
	guards    []store.Lease // of the key's IDs under other secrets
	own       ownership     // nil until the key is this request's
	takenOver bool
	used      bool // the store has shown a record of the key, so that FailOpen runs no handler
	ended     bool // the end of the ownership has begun
	kept      bool // the background goes on with the end of the lease
	body      body
	out       recorder

	mu       sync.Mutex // guards the handler's reports, from any goroutine
	override override
	effect   bool
	keepFor  time.Duration // zero: the route's retention

	noteMu sync.Mutex // guards note, also while it is written
	note   note
}

// execute runs the handler, which owns the key, and settles the record.
func (c *execution) execute(g store.Grant) {
	c.takenOver = g.Verdict == store.TakenOver
	c.event.To = store.StatePending

	began := time.Now()
	ctx, cancel := context.WithDeadline(c.own.context(began), began.Add(c.timeLimit()))
	defer cancel()
	if c.cancelOnDisconnect {
		defer context.AfterFunc(c.r.Context(), cancel)()
	}
	r := c.request(ctx)
	c.out.init(c.w, c.room(), c)

	// A panic, runtime.Goexit and http.ErrAbortHandler are not recovered, so that the stack trace is the handler's.
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
	defer c.dropForm(r)
	next.ServeHTTP(&c.out, r)
	c.duration.add(time.Since(began))
	c.finish(ctx)
	returned = true // not before finish, because a function given to Keep or ReplayHeader may panic
}

// dropForm removes the files of the form that the handler has parsed. net/http removes those of its own request only.
func (c *execution) dropForm(r *http.Request) {
	if f := r.MultipartForm; f != nil && f != c.r.MultipartForm {
		_ = f.RemoveAll()
	}
}

// hiddenFromHandler lists the headers that the handler does not get. With Accept-Encoding it could compress a response
// that a retry can't read. An Upgrade would leave no response to record: a server may ignore the offer.
var hiddenFromHandler = [...]string{"Accept-Encoding", "Upgrade", "Http2-Settings"}

// request returns the request for the handler. Its body is rewound, and its context outlives the client.
func (c *execution) request(ctx context.Context) *http.Request {
	r := c.r.WithContext(ctx)
	c.rewind(r)
	sent := func(name string) bool { _, ok := r.Header[name]; return ok }
	if slices.ContainsFunc(hiddenFromHandler[:], sent) {
		r.Header = maps.Clone(r.Header)
		for _, name := range hiddenFromHandler {
			delete(r.Header, name)
		}
	}
	return r
}

func (c *execution) rewind(r *http.Request) {
	c.body.Reset(c.payload)
	r.Body, r.ContentLength, r.TransferEncoding = &c.body, int64(len(c.payload)), nil
	if len(c.payload) > 0 {
		r.GetBody = c.getBody
	}
}

// getBody is the GetBody of the handler's request, for a handler that passes the request on and may have to resend
// it.
func (c *execution) getBody() (io.ReadCloser, error) {
	b := new(body)
	b.Reset(c.payload)
	return b, nil
}

// timeLimit returns the shorter one of the route's limit and the rest of the client's, who has waited already.
func (c *execution) timeLimit() time.Duration {
	if d, ok := budget(c.r.Header); ok {
		return min(d-time.Since(c.started), c.handlerTimeout)
	}
	return c.handlerTimeout
}

// room returns how many bytes of the response are held back until it is recorded. In a transaction the whole response
// is held back, because nothing is committed or sent before the handler has returned.
func (c *execution) room() int {
	if c.begin != nil {
		return math.MaxInt
	}
	return c.maxResponse
}

// successor returns the handler that runs after a take-over. It reports false if it has refused the request.
func (c *execution) successor(ctx context.Context, r *http.Request, meta []byte) (next http.Handler, ok bool) {
	left, err := decodeNote(meta)
	c.note.checkpoint = left.checkpoint // Applied must not erase it
	next = c.next
	switch p := c.takeOver; {
	case err != nil:
		c.err = err
		_ = c.giveUp(endHandBack)
		c.refuse(taxonomy.Unavailable, "The first request with this key was served by a newer version of this service.")
		return nil, false
	case p.recover != nil:
		found, err := p.recover(ctx, r, c.canonical(c.key), left.checkpoint)
		if err != nil {
			c.err = err
			_ = c.giveUp(endHandBack)
			c.refuse(taxonomy.Unavailable, "The outcome of the first request with this key can't be found out now.")
			return nil, false
		}
		if found != nil {
			next = found
		}
	case p.refuses(left):
		_ = c.giveUp(endHandBack)
		c.refuse(taxonomy.OutcomeUnknown,
			"The first request with this key ended without an outcome: read its effect back.")
		return nil, false
	}
	c.rewind(r)
	return next, true
}

// finish settles the record by the handler's response, and then sends the response.
func (c *execution) finish(ctx context.Context) {
	if c.ended || c.out.mode == discarding {
		return
	}
	override, effect := c.reported()
	switch {
	case c.out.silent() && ctx.Err() != nil && !effect && override != overrideFail:
		// A handler that returns because its time is over has not responded with the 200 of net/http.
		c.timedOut(ctx, override)
		return
	case c.out.silent() && !c.silentOK:
		c.refuseSilence(override, effect)
		return
	}
	c.out.finish()
	c.event.Status = c.out.status
	e := c.ending(override, effect)
	if c.out.abandonedInside() && !effect && e != endFailed {
		c.outliveHandler()
		return
	}
	undo := undoes(e, override, effect)
	switch {
	case e == endRelease || e == endHandBack:
		err := c.giveUp(e)
		switch {
		case c.out.mode == passing:
			// The client has the response already.
		case errors.Is(err, store.ErrTxEnded) || errors.Is(err, store.ErrLost) && c.out.status < 400:
			c.refuseLost(err)
		default:
			c.out.send(false, true)
		}
	case c.out.mode == passing:
		// The response was to be released when it grew too large. The handler has then reported something else.
		_ = c.record(e, undo, wire.AppendTombstone(nil, c.out.status))
	default:
		c.finishStored(e, undo)
	}
}

// finishStored records the response and sends it.
func (c *execution) finishStored(e ending, undo bool) {
	cut := c.out.cut()
	result, kept := c.out.envelope(c.maxResponse, c.replayHeader)
	if cut {
		result, kept = wire.AppendTombstone(nil, c.out.status), false
	}
	err := c.record(e, undo, result)
	if errors.Is(err, store.ErrInvalid) && kept && c.begin == nil {
		// The store does not accept this result. Even so the handler must not run again.
		kept = false
		err = c.record(e, undo, wire.AppendTombstone(nil, c.out.status))
	}
	if err != nil {
		c.refuseLost(err)
		return
	}
	c.out.send(kept, !cut)
}

// ending decides how the record ends after a response. A request that took the key over keeps the record, unless the
// handler calls Release: whether the dead owner made its effect is as unknown as before.
func (c *execution) ending(o override, effect bool) ending {
	e := endingOf(c.out.status, o, effect, c.keepsResponse())
	if e == endRelease && o == overrideNone && c.takenOver {
		return endHandBack
	}
	return e
}

// giveUp ends the ownership without an outcome.
func (c *execution) giveUp(e ending) error {
	c.ended = true
	if e == endHandBack {
		return c.own.handBack()
	}
	return c.own.release()
}

// overflow is called by the recorder for a response that is too large to be stored. It settles the record before the
// first byte is sent.
func (c *execution) overflow() captureMode {
	override, effect := c.reported()
	e := c.ending(override, effect)
	if e != endRelease && e != endHandBack {
		c.event.Status = c.out.status
		if err := c.record(e, false, wire.AppendTombstone(nil, c.out.status)); err != nil {
			c.refuseLost(err)
			return discarding
		}
	}
	c.out.send(false, false)
	return passing
}

// abandon settles the record of a handler that has panicked, or called runtime.Goexit. With evidence of an effect the
// handler never runs again. The evidence is the handler's mark, or a success status that it has written.
// http.TimeoutHandler drops that status, so a panic inside it leaves the outcome unknown. A transaction undoes its
// writes, so there only the mark counts. Layers outside of the middleware may then send a response.
func (c *execution) abandon() {
	c.event.Status = http.StatusInternalServerError
	if c.out.mode == discarding {
		return
	}
	defer c.out.passOn()
	if c.ended {
		return
	}
	override, effect := c.reported()
	status := c.out.status
	succeeded := status >= 200 && status < 400 && c.begin == nil
	switch {
	case effect, succeeded && override != overrideRelease && override != overrideUnknown:
		if status < 200 {
			status = http.StatusInternalServerError
		}
		_ = c.record(endComplete, true, c.own.unfinished(status))
	case override == overrideRelease:
		_ = c.own.release()
	case override == overrideUnknown, c.takeOver.decides():
		_ = c.own.handBack()
	default:
		if inside, _ := callers(); inside && c.begin == nil {
			c.faulty, c.err = true, errDropped
			_ = c.record(endComplete, true, store.UnknownOutcome().Result)
			return
		}
		if c.takenOver {
			_ = c.own.handBack()
			return
		}
		_ = c.own.release()
	}
}

// timedOut ends the request of a handler that had written nothing when its context ended. On a route with Refuse or
// Recover the next request takes the key over, because the handler may have made its effect.
func (c *execution) timedOut(ctx context.Context, o override) {
	lost := errors.Is(context.Cause(ctx), store.ErrLost)
	e := endRelease
	if o == overrideUnknown || o == overrideNone && (c.takenOver || c.takeOver.decides()) {
		e = endHandBack
	}
	err := c.giveUp(e)
	switch {
	case errors.Is(err, store.ErrTxEnded):
		c.refuseLost(err)
	case lost || errors.Is(err, store.ErrLost):
		c.refuseLost(store.ErrLost)
	default:
		c.out.withdraw()
		c.refuse(taxonomy.Timeout, "The handler did not respond in time.")
	}
}

// refuseLost sends a response in place of the handler's, whose outcome is not in the store. The client never gets a
// success that a later replay could contradict.
func (c *execution) refuseLost(err error) {
	c.err = err
	detail := "The outcome is not recorded yet. Send the same request again to get it."
	switch {
	case errors.Is(err, errRolledBack):
		detail = "The outcome could not be committed. Nothing was done."
	case errors.Is(err, store.ErrLost):
		detail = "Another request has taken the key over. Send the same request again to get its outcome."
	}
	c.out.withdraw()
	c.refuse(taxonomy.Unavailable, detail)
}

// runUntracked runs the handler without the store, for FailOpen.
func (c *execution) runUntracked() {
	c.event.Kind, c.event.Code = FailedOpen, taxonomy.Unavailable
	r := c.r.WithContext(context.WithValue(c.r.Context(), callKey{}, c))
	c.rewind(r)
	defer c.dropForm(r)
	c.next.ServeHTTP(c.w, r)
}
