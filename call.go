package redo

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/redo-go/redo/internal/exchange"
	"github.com/redo-go/redo/internal/journal"
	"github.com/redo-go/redo/internal/wire"
	"github.com/redo-go/redo/limit"
	"github.com/redo-go/redo/taxonomy"
)

// A mode is the method of the client that started a call.
type mode uint8

const (
	modeDo        mode = iota // statuses of 400 and above are errors; redirects are followed
	modeTransport             // net/http's semantics
	modeCall                  // like modeDo; the body is JSON and is read within the attempt
)

// A call is one Do, Call or RoundTrip: the request, its operation and its bounds. Its attempts do not change it.
type call struct {
	client   *Client
	ctx      context.Context // the caller's, or the observer's on top of it
	req      *http.Request   // the caller's; never changed
	mode     mode
	policy   RetryPolicy
	op       operation
	body     exchange.Body
	header   http.Header // stored header values that replace the request's own, if restored
	start    time.Time
	prior    bool      // another call under the same key may have had the effect
	unknown  bool      // an earlier call of the stored operation may have had the effect
	resumed  bool      // the operation was pending or complete when the call began
	restored bool      // body and headers are those of the record
	born     time.Time // when the key was first sent, by this process's clock
	first    time.Time // when the operation was first sent
	fence    uint64    // of the claim, if the operation was pending
}

// An outcome is the result of a call.
type outcome struct {
	exchange.Received
	resp     *http.Response // nil if the last attempt got no response
	err      *Error         // nil for a success, and for a redirect
	effect   Effect
	verdict  taxonomy.Verdict
	attempts []Attempt
	streams  bool // the caller reads the response of a stored operation as it arrives
	stored   bool // resp comes from the store
}

// perform runs one call to its end. It returns a response, an error, or both. A status of 400 and above is a response
// with an error. perform always closes the request's body.
func (c *Client) perform(req *http.Request, m mode) (*http.Response, *Error) {
	k := &call{
		client: c, req: req, mode: m, policy: c.retry, start: time.Now(),
		ctx: context.Background(), body: exchange.BodyOf(req),
	}
	defer k.body.Close()
	in, e := intent{}, c.check(req)
	if req != nil {
		k.ctx, in = req.Context(), intentOf(req.Context())
	}
	if in.json {
		k.mode = modeCall
	}
	if e == nil {
		k.op, e = c.plan(req, in, m)
	} else if req != nil {
		k.op = c.unplanned(in, req.Method)
		e.Operation = k.op.name
	}
	if in.policy != nil {
		if err := in.policy.validate(); err != nil && e == nil {
			e = k.op.refuse(taxonomy.InvalidRequest, err)
		}
		k.policy = in.policy.withDefaults()
	}
	if c.observer != nil {
		k.ctx = c.observer.StartOperation(k.ctx, k.startEvent())
	}
	var out outcome
	defer func() { k.end(out, in.report) }() // after a panic too, or the observer would count the call for ever
	if e != nil {
		e.Effect = k.unsent()
		out.err, out.effect = e, e.Effect
		return nil, e
	}
	out = k.run()
	return out.resp, out.err
}

// end shows the call's outcome to the log, the observer and the caller's report, if there are any.
func (k *call) end(out outcome, report *Report) {
	if out.resp == nil && out.err == nil {
		out.err = k.failed(taxonomy.Configuration, EffectUnknown, nil, errors.New("redo: the call panicked"))
	}
	if out.err != nil && len(out.attempts) == 0 {
		k.log(slog.LevelWarn, "call refused", slog.String("error_code", string(out.err.Code)), slog.Any("error", out.err.Err))
	}
	if o := k.client.observer; o != nil {
		o.EndOperation(k.ctx, OperationEnd{
			Operation: k.op.name, Key: k.op.key, Attempts: len(out.attempts), Elapsed: time.Since(k.start),
			Effect: out.effect, Resumed: k.resumed, Stored: out.stored, Replayed: Replayed(out.resp), Err: out.err.apart(),
		})
	}
	if report != nil {
		report.set(out, k.resumed)
	}
}

// check refuses a call on a closed client, and a request that can't be sent.
func (c *Client) check(req *http.Request) *Error {
	if c.life.Err() != nil {
		return operation{}.refuse(taxonomy.ClientClosed, ErrClosed)
	}
	if r := exchange.Check(req); r != nil {
		return operation{}.refuse(r.Code, r.Err)
	}
	return nil
}

// run makes the call's attempts.
func (k *call) run() outcome {
	if k.op.stored {
		return k.runStored()
	}
	k.prior, k.first, k.born = k.op.key != "" && !k.op.fresh, k.start, k.start
	if k.passes() {
		k.policy.MaxAttempts = 1
	} else if k.keyed() || wire.IdempotentMethod(k.req.Method) {
		if err := k.body.Buffer(k.client.maxBuffered); err != nil {
			return k.bodyFailure(err, k.unsent())
		}
	}
	return k.send()
}

// refused returns the outcome of a call that made no attempt.
func (k *call) refused(code taxonomy.Code, effect Effect, err error) outcome {
	e := k.failed(code, effect, nil, err)
	e.sameKey = k.op.stored || k.op.lasting
	e.retry = code == taxonomy.Unavailable || code == taxonomy.InFlight || code.In(taxonomy.Caller)
	return outcome{err: e, effect: effect}
}

// failed returns the error of a call. resp is the call's response, nil if there was none.
func (k *call) failed(code taxonomy.Code, effect Effect, resp *http.Response, err error) *Error {
	e := &Error{Code: code, Operation: k.op.name, Key: k.op.key, Effect: effect, Response: resp, Err: err}
	if resp != nil {
		e.StatusCode = resp.StatusCode
	}
	return e
}

// bodyFailure returns the outcome of a call whose body could not be read.
func (k *call) bodyFailure(err error, effect Effect) outcome {
	if caller := exchange.Ended(k.req); caller != nil {
		return k.gaveUp(caller, err, effect)
	}
	return k.refused(taxonomy.InvalidRequest, effect, err)
}

// gaveUp returns the outcome of a call whose caller's context ended before the first attempt.
func (k *call) gaveUp(caller, err error, effect Effect) outcome {
	return k.refused(taxonomy.Classify(taxonomy.Answer{Caller: caller}).Code, effect,
		exchange.WithReason(k.req, caller, err))
}

// unsent returns the known effect of an operation whose call is refused before its record is read. It is a claim about
// the operation, whose earlier calls may have been applied, and not about the call.
func (k *call) unsent() Effect {
	c, name, malformed := k.client, k.op.name, k.client.checkKey(k.op.key) != nil // or empty
	switch {
	case name != "" && journal.CheckName(name) != nil, name == "" && (malformed || k.op.fresh):
		return NotApplied // no other call with that name or key is ever sent
	case name == "":
		return EffectUnknown
	}
	lasting := k.op.given && !malformed
	if !lasting && c.keys != nil {
		made, e := c.makeKey(k.op)
		if e != nil && e.Code == taxonomy.InvalidOperation {
			return NotApplied
		}
		lasting = e != nil || made.lasting // a function that fails may be one that derives keys
	}
	switch k.op.lasting = lasting; {
	case k.op.stored:
		return k.recorded()
	case lasting:
		return EffectUnknown
	}
	return NotApplied
}

// keyed reports whether the server can recognise a repetition of the request.
func (k *call) keyed() bool { return k.op.key != "" && !k.client.profile.NoKeys }

// usable returns how long the request may still be sent. An older key may be new to the server.
func (k *call) usable() time.Duration { return k.client.retention.Left(k.keyed(), k.born, time.Now()) }

// destination returns the origin of the call. A redirect does not change it.
func (k *call) destination() limit.Destination {
	return limit.Destination{Scheme: k.req.URL.Scheme, Host: k.req.URL.Host}
}

// passes reports whether the request is sent once and without a new key, as net/http would send it. That is an unsafe
// request under an SDK without a name or a given key, if no option declares that the server honours keys.
func (k *call) passes() bool {
	return k.mode == modeTransport && k.op.name == "" && !k.op.given && !k.client.optedIn && !wire.SafeMethod(k.req.Method)
}
