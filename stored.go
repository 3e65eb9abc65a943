package redo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/redo-go/redo/internal/wire"
	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/taxonomy"
)

const (
	maxClaims     = 16              // claims of one call: another caller may change the record in between
	lookupTimeout = 1 * time.Second // bounds the read of a record after a claim failed
)

// A holding is the right to send the request of a stored operation.
type holding struct {
	lease   store.Lease
	request storedRequest // as it is in the record
}

// runStored claims the call's operation in the store, and acts on the state that it finds.
func (k *call) runStored() outcome {
	claim, request, e := k.claim()
	if e != nil {
		return outcome{err: e, effect: e.Effect}
	}
	return k.shareFlight(claim.Fingerprint, func() outcome {
		for range maxClaims {
			grant, err := k.client.store.Reserve(k.ctx, claim)
			if err != nil {
				if !k.op.given {
					k.op.key = "" // made for the claim, and not recorded
				}
				return k.storeFailure(err, k.recorded(claim.ID))
			}
			h, out, again := k.meet(grant, request)
			switch {
			case again:
			case h == nil:
				return out
			default:
				return k.settle(h, k.send(), claim.Fingerprint)
			}
		}
		return k.storeFailure(
			fmt.Errorf("%w: the record of the operation keeps changing", store.ErrUnavailable),
			EffectUnknown,
		)
	})
}

// meet acts on the store's verdict. It returns one of three results. With a holding the caller sends the request.
// With again the caller claims the record anew. Otherwise out is the call's outcome. request is the request of the
// claim.
func (k *call) meet(grant store.Grant, request storedRequest) (h *holding, out outcome, again bool) {
	rec := grant.Record
	switch grant.Verdict {
	case store.Acquired:
		k.usable, k.first, k.op.key = k.client.usable(), rec.CreatedAt, request.Key
		k.prior = k.op.given // another program may have sent a given key
		k.logTransition(rec.Fingerprint, "none", "pending")
		return &holding{grant.Lease, request}, outcome{}, false
	case store.TakenOver:
		return k.resume(grant)
	case store.Complete:
		return k.recall(rec)
	case store.Mismatch:
		if rec.State != store.StateFailed {
			return nil, k.mismatch(rec), false
		}
		fallthrough
	case store.Failed:
		// The operation was not applied. It starts anew, with a new key.
		if err := k.makeRoom(rec); err != nil {
			return nil, k.storeFailure(err, k.recorded(rec.ID)), false
		}
		return nil, outcome{}, true
	case store.InFlight:
		out := k.refused(
			taxonomy.InFlight,
			EffectUnknown,
			errors.New("redo: another owner holds a lease on the operation in the store"),
		)
		out.err.RetryAt = time.Now().Add(rec.LeaseLeft())
		return nil, out, false
	}
	return nil, k.storeFailure(fmt.Errorf("redo: the store returned the verdict %v", grant.Verdict), EffectUnknown), false
}

// storeFailure returns the outcome of a call that ended before it sent anything, because the store failed or the
// caller's context ended. effect is the operation's known effect.
func (k *call) storeFailure(err error, effect Effect) outcome {
	if caller := k.ended(); caller != nil {
		return k.refused(taxonomy.Classify(taxonomy.Answer{Caller: caller}).Code, effect, k.withReason(caller, err))
	}
	if errors.Is(err, store.ErrInvalid) {
		return k.refused(taxonomy.InvalidOperation, effect, err)
	}
	return k.refused(taxonomy.Unavailable, effect, err)
}

// recorded returns the operation's recorded effect after a claim failed. A store that refuses to write may still be
// readable. The read has its own time limit, since the caller's context may have ended.
func (k *call) recorded(id store.ID) Effect {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(k.ctx), lookupTimeout)
	defer cancel()
	rec, err := k.client.store.Find(ctx, id)
	if err != nil {
		if errors.Is(err, store.ErrNotFound) && !k.op.given { // another program may have sent a given key
			return NotApplied
		}
		return EffectUnknown
	}
	op, err := k.client.operationOf(rec)
	if err != nil {
		return EffectUnknown
	}
	return op.Effect
}

// claim reads the body, makes the key, and returns a claim with both.
func (k *call) claim() (store.Claim, storedRequest, *Error) {
	fail := func(code taxonomy.Code, err error) (store.Claim, storedRequest, *Error) {
		return store.Claim{}, storedRequest{}, &Error{Code: code, Operation: k.op.name, Effect: k.recorded(k.id()), Err: err}
	}
	if err := k.body.buffer(k.req, k.client.maxBuffered); err != nil {
		return fail(taxonomy.InvalidRequest, err)
	}
	if !k.body.replayable(k.req) {
		return fail(taxonomy.BodyNotReplayable, ErrNotReplayable)
	}
	if k.op.key == "" {
		op, e := k.client.makeKey(k.op)
		if e != nil {
			return store.Claim{}, storedRequest{}, e
		}
		k.op = op
	}
	fingerprint, whole, err := k.fingerprint()
	if err != nil {
		return fail(taxonomy.InvalidRequest, fmt.Errorf("redo: reading the request's body: %w", err))
	}
	request := k.client.storable(k.req, k.op.key, k.body.bytes, whole)
	meta, err := request.encode()
	if err != nil {
		return fail(taxonomy.InvalidRequest, fmt.Errorf("redo: encoding the request: %w", err))
	}
	return store.Claim{
		ID:          k.id(),
		Fingerprint: fingerprint,
		Retention:   store.Forever, // an unsettled operation is never forgotten: that would give it a second key
		Meta:        meta,
	}, request, nil
}

func (k *call) id() store.ID { return store.ID{Scope: k.client.scope, Key: k.op.name} }

// fingerprint returns the hash of the payload: method, origin, path, query, stored headers and body. If the body is
// short enough to be stored, whole is true and fingerprint holds the body in memory.
func (k *call) fingerprint() (f store.Fingerprint, whole bool, err error) {
	req, limit := k.req, int64(k.client.maxStored)
	u, _ := wire.WithoutCredentials(req.URL)
	path := k.destination().String() + u.EscapedPath() + k.client.headerText(req.Header)
	var body io.Reader = http.NoBody
	switch {
	case k.body.held:
		body, whole = bytes.NewReader(k.body.bytes), int64(len(k.body.bytes)) <= limit
	case k.body.empty(req):
		whole = true
	default:
		from, err := req.GetBody()
		if err != nil {
			return f, false, err
		}
		defer func() { _ = from.Close() }()
		head, err := io.ReadAll(io.LimitReader(from, limit+1))
		if err != nil {
			return f, false, err
		}
		if whole = int64(len(head)) <= limit; whole {
			k.body.hold(head)
			closeBody(req)
		}
		body = io.MultiReader(bytes.NewReader(head), from) // a longer body is hashed and not held
	}
	if own := k.client.fingerprint; own != nil {
		b, err := own(req, body)
		if err != nil {
			return f, false, fmt.Errorf("WithFingerprint: %w", err)
		}
		return store.Raw(req.Method, path, u.RawQuery, b), whole, nil
	}
	f, err = store.RawReader(req.Method, path, u.RawQuery, body)
	return f, whole, err
}

// headerText returns the stored headers as text for the fingerprint, empty if there are none. It leaves out the
// boundary of a multipart body, which differs on each call.
func (c *Client) headerText(h http.Header) string {
	stored, _ := c.meaning(h)
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(stored)) {
		for _, v := range stored[name] {
			if name == "Content-Type" {
				v = withoutBoundary(v)
			}
			fmt.Fprintf(&b, "\n%s: %s", name, v)
		}
	}
	return b.String()
}

func withoutBoundary(contentType string) string {
	mediaType, params, err := mime.ParseMediaType(contentType)
	if err != nil || params["boundary"] == "" {
		return contentType
	}
	delete(params, "boundary")
	return mime.FormatMediaType(mediaType, params)
}

// resume continues a pending operation under its key and with its stored request, or refuses to send it again.
func (k *call) resume(grant store.Grant) (h *holding, out outcome, again bool) {
	rec := grant.Record
	pending, err := decodeRequest(rec.Meta)
	if err != nil {
		return nil, k.storeFailure(err, EffectUnknown), false
	}
	given := k.op.key
	k.op.key, k.resumed, k.first = pending.Key, true, rec.CreatedAt
	if k.op.given && pending.Key != given {
		return nil, k.refused(
			taxonomy.InvalidOperation,
			EffectUnknown,
			errors.New("redo: the operation is pending under another key than the given one"),
		), false
	}
	k.usable = k.client.usable() - rec.Age()
	if pending.Rest != nil || k.usable <= 0 {
		return k.rests(rec, pending)
	}
	k.restore(pending)
	k.unknown = !pending.Unapplied
	h = &holding{lease: grant.Lease, request: pending}
	if pending.Unapplied {
		// From the first byte on the effect is unknown. The record must show that before the byte is sent.
		switch err := k.mark(k.ctx, h, false); {
		case errors.Is(err, store.ErrLost):
			return nil, outcome{}, true // another caller took the operation over, so this record is out of date
		case err != nil:
			return nil, k.storeFailure(err, k.recorded(rec.ID)), false
		}
	}
	return h, outcome{}, false
}

// restore replaces the request's body and stored headers with those of the record, which earlier attempts sent.
func (k *call) restore(pending storedRequest) {
	if !pending.Whole {
		return
	}
	if pending.Body != nil {
		closeBody(k.req)
		k.body.hold(pending.Body)
	}
	k.header = pending.Header
}

// mismatch refuses another payload under the operation's name.
func (k *call) mismatch(rec store.Record) outcome {
	k.op.key = ""
	if pending, err := decodeRequest(rec.Meta); err == nil {
		k.op.key = pending.Key
	}
	return k.refused(
		taxonomy.PayloadMismatch,
		NotApplied,
		fmt.Errorf("redo: the operation is %v with another payload (fingerprint %.12s…): "+
			"a name is for one request", rec.State, rec.Fingerprint),
	)
}

// makeRoom removes a failed operation's record, so that it can start anew. Another caller may do so first.
func (k *call) makeRoom(rec store.Record) error {
	f, ok := k.client.store.(store.Forgetter)
	if !ok {
		return fmt.Errorf("redo: %T can't forget a failed operation: it is no store.Forgetter", k.client.store)
	}
	if err := f.Forget(k.ctx, rec.Lease()); err != nil && !errors.Is(err, store.ErrLost) {
		return err
	}
	if !k.op.given { // the failed operation's key is used up
		k.op.key = ""
	}
	return nil
}

// recall returns a complete operation's outcome. It comes from the store, or from the server if the store does not
// hold the response or WithServerReplay is set. The results are those of [call.meet]; h is always nil.
func (k *call) recall(rec store.Record) (h *holding, out outcome, again bool) {
	pending, err := decodeRequest(rec.Meta)
	if err != nil {
		return nil, k.storeFailure(err, EffectUnknown), false
	}
	result, err := decodeSettlement(rec.Result)
	if err != nil {
		return nil, k.storeFailure(err, EffectUnknown), false
	}
	k.op.key, k.resumed, k.first = pending.Key, true, rec.CreatedAt
	k.usable = k.client.usable() - rec.Age()
	if result.code == "" && result.finding == nil && (k.client.askServer || !result.bodyKept) && k.usable > 0 {
		k.restore(pending)
		k.unknown = true
		out := k.send()
		out.effect = Applied
		if out.err != nil {
			out.err.Effect = Applied
		}
		return nil, out, false
	}
	return nil, k.replay(result), false
}

// replay returns the outcome that a settlement records.
func (k *call) replay(s settlement) outcome {
	resp := k.storedResponse(s.response)
	out := outcome{resp: resp, effect: s.effect, stored: true}
	if s.code == "" && s.bodyKept && resp != nil {
		return out
	}
	e := &Error{
		Code: s.code, Operation: k.op.name, Key: k.op.key, Effect: s.effect, Response: resp,
		said: s.said, sameKey: true, whole: s.code != "" && s.bodyKept,
	}
	if resp != nil {
		e.StatusCode, e.head = resp.StatusCode, s.response.Body
	}
	e.Err = errors.New(
		"redo: this operation's final response is recorded, nothing was sent: find out what happened, then Settle or Forget it",
	)
	if s.code == "" {
		e.Code = taxonomy.ResultNotStored
		e.Err = errors.New("redo: the response was not stored here, and the server may have forgotten it: fetch the resource")
	}
	out.err = e
	return out
}

// storedResponse returns the *http.Response of a recorded response. It returns nil for nil.
func (k *call) storedResponse(r *wire.Response) *http.Response {
	if r == nil {
		return nil
	}
	h := r.Header
	if h == nil {
		h = http.Header{}
	}
	ctx := context.WithValue(k.ctx, loopKey{}, &loop{call: k, fromStore: true})
	return &http.Response{
		Status:     fmt.Sprintf("%d %s", r.Status, http.StatusText(r.Status)),
		StatusCode: r.Status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: h, Body: io.NopCloser(bytes.NewReader(r.Body)), ContentLength: int64(len(r.Body)),
		Request: k.req.WithContext(ctx),
	}
}
