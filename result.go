package redo

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/redo-go/redo/internal/wire"
	"github.com/redo-go/redo/limit"
	"github.com/redo-go/redo/taxonomy"
)

// maxErrorBody is the number of bytes of an error's body that are read. It is enough for a problem document. It is
// also more than go-retryablehttp drains, so that the connection survives an ordinary error page.
const maxErrorBody = 64 << 10

// A result holds the response or the error of one attempt, and its verdict.
type result struct {
	ctx     context.Context // the attempt's, or the observer's on top of it
	resp    *http.Response  // nil if there was none
	head    []byte          // of an error's body
	cut     error           // why head is not the whole body; nil if it is
	err     error           // the transport's error, the one met while reading the body, or this client's own refusal
	verdict taxonomy.Verdict
	local   bool // this client refused the attempt
	sent    bool
	sends   int
	resent  bool // net/http sent the request more than once
	body    capture
	queued  time.Duration // spent waiting for the limiter
	elapsed time.Duration
}

// result reads the part of the response that the client needs, and classifies the attempt.
func (a *attempt) result(resp *http.Response, err error) result {
	k, p := a.call, &a.call.client.profile
	res := result{resp: resp, resent: a.resent()}
	if err != nil {
		if resp != nil {
			_ = resp.Body.Close()
			res.resp, resp = nil, nil
		}
		a.clock.release()
		res.err = wire.WithoutQuery(a.explain(err))
	} else {
		res.err = wire.WithoutQuery(a.explain(res.receive(a)))
	}
	res.sends, res.sent = a.sends(), resp != nil || a.sent(err)
	answer := taxonomy.Answer{
		Err: res.err, Sent: res.sent, Body: res.head, Directives: p.ShouldRetry,
		StatusCodes: p.Statuses, Codes: p.Codes, Markers: p.ReplayMarkers,
	}
	if resp != nil {
		answer.Status, answer.Header = resp.StatusCode, resp.Header
		k.client.learn(resp.Header)
	}
	if res.err != nil {
		// A response that arrived whole counts, even if the caller's context has ended.
		if answer.Caller = k.ended(); answer.Caller != nil {
			res.err = k.withReason(answer.Caller, res.err)
		}
	}
	if res.verdict, res.local = localVerdict(res.err); !res.local {
		res.verdict = taxonomy.Classify(answer)
	}
	if resp != nil && answer.Caller == nil && !res.local {
		res.classify(k)
	}
	res.elapsed = time.Since(a.start)
	return res
}

// classify applies the rules of Call for JSON responses, then the profile's classifier, then the client's.
func (r *result) classify(k *call) {
	if k.mode == modeCall && r.verdict.Class == taxonomy.ClassSuccess && r.resp.StatusCode/100 != 2 {
		r.verdict = taxonomy.Verdict{Code: taxonomy.RedirectNotFollowed}
	}
	if k.mode == modeCall && r.verdict.Class == taxonomy.ClassSuccess && len(r.body.bytes) > 0 &&
		!json.Valid(r.body.bytes) {
		// A captive portal or a login page returned 200 in place of the server.
		r.verdict = taxonomy.Verdict{Code: taxonomy.Provider + ".malformed"}
		r.err = errors.New("redo: the response's body is not JSON")
	}
	body := r.head
	if body == nil {
		body = r.body.bytes[:min(len(r.body.bytes), maxErrorBody)]
	}
	for _, f := range []Classifier{k.client.profile.Classifier, k.client.classifier} {
		if f == nil {
			continue
		}
		v := f(r.resp, body, r.verdict)
		if kept := r.verdict.Code; v.Class == taxonomy.ClassTransient &&
			(kept.In(taxonomy.PayloadMismatch) || kept.In(taxonomy.KeyExpired)) {
			continue
		}
		if r.verdict = v; v.Class == taxonomy.ClassSuccess && v.Effect == EffectUnknown {
			r.verdict.Effect = Applied
		}
	}
	if r.verdict.Class != taxonomy.ClassSuccess && r.resp.StatusCode/100 == 2 {
		// The 2xx means a failure, so its response is like that of an error: closed, with the head of its body readable.
		_ = r.resp.Body.Close()
		r.head, r.resp.Body = body, errorBody(body, nil)
	}
}

// receive reads the part of a response that the client needs to classify the attempt. The attempt's clock runs until
// receive returns. It does not bound the part of a body that the caller reads.
func (r *result) receive(a *attempt) error {
	k, resp := a.call, r.resp
	switch {
	case resp.StatusCode >= 400:
		return r.receiveError(a)
	case resp.StatusCode == http.StatusSwitchingProtocols:
		timed := &timedBody{resp.Body, a.clock}
		resp.Body = timed
		if w, ok := timed.ReadCloser.(io.Writer); ok {
			resp.Body = connectionBody{timed, w}
		}
		a.clock.stop()
		return nil
	case k.mode == modeCall:
		return r.receiveWhole(a, k.client.maxResponse)
	case resp.Body == http.NoBody && !k.op.stored:
		a.clock.release()
		return nil
	case (k.op.stored || k.classifies()) && !wire.Streams(resp):
		return r.receiveHead(a)
	}
	return r.handOver(a, nil)
}

// handOver stops the clock and gives the body to the caller: first head, which was read already, then the rest.
func (r *result) handOver(a *attempt, head []byte) error {
	body := r.resp.Body
	if !a.clock.stop() {
		return r.lose(a, ErrAttemptTimeout)
	}
	if len(head) > 0 {
		body = rejoin(head, body)
	}
	r.resp.Body = &timedBody{body, a.clock}
	if a.call.op.stored && wire.Streams(r.resp) {
		r.body.streams = true
	}
	return nil
}

// lose drops a response whose body broke off. It keeps the status for the attempt's record.
func (r *result) lose(a *attempt, err error) error {
	_ = r.resp.Body.Close()
	a.clock.release()
	r.resp.Body = http.NoBody
	return err
}

// receiveError reads the head of an error's body. Under Transport the caller gets all of a longer one.
func (r *result) receiveError(a *attempt) error {
	resp := r.resp
	reading := a.clock
	if a.call.mode == modeTransport {
		// No clock runs, and a body that stalls must not hold the call. A body that is closed early ends with an error.
		body := resp.Body
		reading.timer = time.AfterFunc(errorBodyPatience, func() { _ = body.Close() })
		defer reading.timer.Stop()
	}
	head, err := io.ReadAll(io.LimitReader(resp.Body, maxErrorBody))
	r.head = head
	if err == nil && len(head) == maxErrorBody && a.call.mode == modeTransport && reading.stop() {
		resp.Body, r.cut = rejoin(head, resp.Body), io.ErrUnexpectedEOF
		return nil
	}
	_ = resp.Body.Close()
	a.clock.release()
	resp.Body, r.cut = errorBody(head, err), err
	return err
}

// errorBodyPatience bounds the reading of an error's body under Transport.
const errorBodyPatience = 10 * time.Second

// receiveWhole reads the body within the attempt, up to limit bytes after decompression.
func (r *result) receiveWhole(a *attempt, limit int) error {
	b, err := wire.ReadBody(r.resp.Body, r.resp.ContentLength, limit)
	if errors.Is(err, wire.ErrBodyTooLarge) {
		_ = r.lose(a, nil)
		return &refusedError{code: taxonomy.Provider + ".response_too_large", effect: Applied,
			err: fmt.Errorf("redo: the response has more than the %d bytes of WithMaxResponse", limit)}
	}
	if err != nil {
		return r.lose(a, err)
	}
	_ = r.resp.Body.Close()
	a.clock.release()
	r.resp.Body = io.NopCloser(bytes.NewReader(b))
	r.keep(a.call, b)
	return nil
}

// receiveHead reads a body up to the store's limit, so that a response that breaks off before is retried like a lost
// one. The caller reads the rest of a longer body.
func (r *result) receiveHead(a *attempt) error {
	limit := max(a.call.client.maxStored, maxErrorBody)
	head, err := io.ReadAll(io.LimitReader(r.resp.Body, int64(limit)+1))
	switch {
	case err != nil:
		return r.lose(a, err)
	case len(head) > limit:
		r.body, r.cut = capture{bytes: head, tooLong: true}, io.ErrUnexpectedEOF
		return r.handOver(a, head)
	}
	_ = r.resp.Body.Close()
	a.clock.release()
	r.resp.Body = io.NopCloser(bytes.NewReader(head))
	r.keep(a.call, head)
	return nil
}

// A capture is a response's body as it was read within the attempt, and whether it may be stored.
type capture struct {
	bytes   []byte
	tooLong bool // for the store
	streams bool // the caller reads it as it arrives
}

// keep records b as the whole body.
func (r *result) keep(k *call, b []byte) {
	r.body = capture{bytes: b, tooLong: len(b) > k.client.maxStored}
}

// classifies reports whether a classifier needs the body of a success.
func (k *call) classifies() bool {
	return k.client.classifier != nil || k.client.profile.Classifier != nil
}

// attempt returns the result as errors, observers and logs show it.
func (r *result) attempt(number int) Attempt {
	rec := Attempt{Number: number, Code: r.verdict.Code, Err: r.err, Elapsed: r.elapsed, WireSends: r.sends}
	if r.resp != nil {
		rec.Status = r.resp.StatusCode
	}
	if rec.WireSends == 0 && r.sent {
		rec.WireSends = 1
	}
	return rec
}

// health returns the evidence that the attempt gives about its destination.
func health(r result) limit.Health {
	switch {
	case r.verdict.Code.In(taxonomy.Caller):
		return limit.Neutral
	case r.verdict.Class == taxonomy.ClassTransient && !r.verdict.Code.In(taxonomy.Conflict):
		return limit.Unhealthy
	case r.resp == nil:
		return limit.Neutral // no evidence: no credentials, an unknown host, an untrusted certificate
	}
	return limit.Healthy
}

// localVerdict classifies an attempt that this client refused itself. It returns false for any other attempt.
func localVerdict(err error) (taxonomy.Verdict, bool) {
	v := taxonomy.Verdict{Class: taxonomy.ClassTransient, Effect: NotApplied}
	switch {
	case err == nil:
		return v, false
	case errors.Is(err, ErrBreakerOpen):
		v.Code = taxonomy.Unavailable
	case errors.Is(err, ErrLimited):
		v.Code = taxonomy.RateLimited
	default:
		refused, ok := errors.AsType[*refusedError](err)
		if !ok {
			return v, false
		}
		v.Code, v.Class, v.Effect = refused.code, taxonomy.ClassTerminal, refused.effect
	}
	return v, true
}

// A refusedError ends an attempt by this client's own decision.
type refusedError struct {
	code   taxonomy.Code
	effect Effect
	err    error
}

func (e *refusedError) Error() string { return e.err.Error() }
func (e *refusedError) Unwrap() error { return e.err }

// learn records the retention that the API advertises, if it is shorter than the recorded one.
func (c *Client) learn(h http.Header) {
	if c.profile.LifetimeHeader == "" {
		return
	}
	d, ok := wire.Lifetime(h.Get(c.profile.LifetimeHeader))
	for ok && d > 0 {
		known := c.learned.Load()
		if known > 0 && known <= int64(d) || c.learned.CompareAndSwap(known, int64(d)) {
			return
		}
	}
}
