package redo

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/taxonomy"
)

// maxClaims bounds how often a claim is repeated because somebody else changed the record in between.
const maxClaims = 4

// runStored runs an operation that is kept in the store through its states.
func (k *call) runStored() (*http.Response, *Error) {
	claim, e := k.claim()
	if e != nil {
		return nil, e
	}
	for range maxClaims {
		grant, err := k.client.store.Reserve(k, claim)
		if err != nil {
			return nil, k.storeFailure(err)
		}
		k.claimed.lease, k.op.prior = grant.Lease, grant.Verdict == store.TakenOver
		rec := grant.Record
		switch grant.Verdict {
		case store.Acquired:
			k.logTransition("none", "pending")
			return k.sendStored()
		case store.TakenOver:
			if e := k.resumeKey(rec); e != nil {
				return nil, e
			}
			return k.sendStored()
		case store.Complete:
			return k.answerFromStore(rec)
		case store.Mismatch:
			if rec.State != store.StateFailed {
				return nil, k.mismatch(rec)
			}
			fallthrough
		case store.Failed:
			// Known not to have been applied: the operation starts anew, with a new key.
			if err := k.makeRoom(rec); err != nil {
				return nil, k.storeFailure(err)
			}
		case store.InFlight:
			return nil, &Error{
				Code: taxonomy.InFlight, Operation: k.op.name, sameKey: true, retry: true, RetryAt: time.Now().Add(rec.LeaseLeft()),
				Err: errors.New("redo: somebody holds a lease on the operation in the store"),
			}
		default:
			return nil, k.storeFailure(fmt.Errorf("redo: the store answered with %v", grant.Verdict))
		}
	}
	return nil, k.storeFailure(fmt.Errorf("%w: the record of the operation keeps changing", store.ErrUnavailable))
}

func (k *call) storeFailure(err error) *Error {
	if caller := ended(k.req); caller != nil {
		v := taxonomy.Classify(taxonomy.Answer{Caller: caller})
		return &Error{Code: v.Code, Operation: k.op.name, Err: errors.Join(caller, err), sameKey: true, retry: true}
	}
	return storeError(k.op, err)
}

// claim reads the body, makes the key, and puts both into a claim.
func (k *call) claim() (store.Claim, *Error) {
	fail := func(code taxonomy.Code, err error) (store.Claim, *Error) {
		return store.Claim{}, &Error{Code: code, Operation: k.op.name, Effect: NotApplied, Err: err}
	}
	if !k.payload.replayable(k.req) {
		return fail(taxonomy.BodyNotReplayable, ErrNotReplayable)
	}
	if k.op.key == "" {
		if k.client.keys == nil {
			return fail(taxonomy.KeyMissing, errors.New("redo: the operation has no key: WithKeys(nil) leaves it to WithKey"))
		}
		key, e := k.client.newKey(k.op.name, k.first.start)
		if e != nil {
			return store.Claim{}, e
		}
		k.op.key = key
	}
	whole, err := k.fingerprint()
	if err != nil {
		return fail(taxonomy.InvalidRequest, fmt.Errorf("redo: reading the request's body: %w", err))
	}
	k.claimed.request = k.client.storable(k.req, k.op.key, k.payload.bytes, whole)
	meta, err := k.claimed.request.encode()
	if err == nil && len(meta) > store.MaxMeta {
		k.claimed.request = storedRequest{Version: storedVersion, Key: k.op.key}
		meta, err = k.claimed.request.encode()
	}
	if err != nil {
		return fail(taxonomy.InvalidRequest, fmt.Errorf("redo: encoding the request: %w", err))
	}
	return store.Claim{
		ID:          store.ID{Scope: k.client.scope, Key: k.op.name},
		Fingerprint: k.claimed.fingerprint,
		Retention:   store.Forever, // an unsettled operation is never forgotten: that would give it a second key
		Meta:        meta,
	}, nil
}

// fingerprint computes the payload's fingerprint, and keeps the body if it is within the cap. The path carries
// the origin: the same name at another server is another payload.
func (k *call) fingerprint() (whole bool, err error) {
	req := k.req
	path := k.dest().String() + req.URL.EscapedPath()
	if k.payload.empty(req) {
		k.claimed.fingerprint = store.Raw(req.Method, path, req.URL.RawQuery, nil)
		return true, nil
	}
	body, err := req.GetBody()
	if err != nil {
		return false, err
	}
	defer func() { _ = body.Close() }()
	limit := int64(k.client.maxBody)
	if req.ContentLength > limit {
		k.claimed.fingerprint, err = store.RawReader(req.Method, path, req.URL.RawQuery, body)
		return false, err
	}
	buf := bytes.NewBuffer(make([]byte, 0, max(req.ContentLength, 0)+bytes.MinRead))
	if _, err := io.CopyN(buf, body, limit+1); err == nil {
		// Longer than it said, or of unknown length: hashed without being held.
		k.claimed.fingerprint, err = store.RawReader(req.Method, path, req.URL.RawQuery, io.MultiReader(buf, body))
		return false, err
	} else if err != io.EOF { //nolint:errorlint // CopyN returns the bare io.EOF, and any wrapped one is a failure
		return false, err
	}
	k.payload.bytes, k.payload.read = buf.Bytes(), true
	closeBody(req)
	k.claimed.fingerprint = store.Raw(req.Method, path, req.URL.RawQuery, k.payload.bytes)
	return true, nil
}

// resumeKey takes the pending operation's key over, or says why it must not be sent again.
func (k *call) resumeKey(rec store.Record) *Error {
	pending, err := decodeRequest(rec.Meta)
	if err != nil {
		return storeError(k.op, err)
	}
	if k.op.fixedKey && pending.Key != k.op.key {
		return &Error{
			Code: taxonomy.InvalidOperation, Operation: k.op.name, Key: pending.Key,
			Err: errors.New("redo: the operation is pending under another key than the one given"),
		}
	}
	k.op.key = pending.Key
	p := k.client.profile
	if age := rec.Age(); age >= p.Retention-p.margin() {
		return &Error{
			Code: taxonomy.KeyExpired, Operation: k.op.name, Key: k.op.key,
			Err: fmt.Errorf("redo: the operation has been pending for %v, and profile %q remembers keys for %v: find out what happened, then Forget it", age.Round(time.Second), p.Name, p.Retention),
		}
	}
	k.claimed.request = pending
	if !pending.Unapplied {
		return nil
	}
	// From here on nobody knows, and that has to be on record before the first byte is sent.
	switch err := k.markUnapplied(k, false); {
	case err == nil:
		k.op.prior = false
	case !errors.Is(err, store.ErrLost): // lost: the same operation was called again meanwhile, and is being sent
		return k.storeFailure(err)
	}
	return nil
}

func (k *call) mismatch(rec store.Record) *Error {
	e := &Error{
		Code: taxonomy.PayloadMismatch, Operation: k.op.name, Effect: NotApplied,
		Err: fmt.Errorf("redo: the operation is %v with another payload (%.12s…, this one is %.12s…): a name stands for one request", rec.State, rec.Fingerprint, k.claimed.fingerprint),
	}
	if pending, err := decodeRequest(rec.Meta); err == nil {
		e.Key = pending.Key
	}
	return e
}

// makeRoom removes a failed operation's record, so that it can start anew. Somebody else may do so first.
func (k *call) makeRoom(rec store.Record) error {
	f, ok := k.client.store.(store.Forgetter)
	if !ok {
		return fmt.Errorf("redo: %T can't forget a failed operation: it is no store.Forgetter", k.client.store)
	}
	if err := f.Forget(k, rec.Lease()); err != nil && !errors.Is(err, store.ErrLost) {
		return err
	}
	return nil
}

// answerFromStore gives the caller a settled operation's outcome again.
func (k *call) answerFromStore(rec store.Record) (*http.Response, *Error) {
	pending, err := decodeRequest(rec.Meta)
	if err != nil {
		return nil, storeError(k.op, err)
	}
	k.op.key = pending.Key
	out, err := decodeOutcome(rec.Result)
	if err != nil {
		return nil, storeError(k.op, err)
	}
	p := k.client.profile
	if out.code == "" && (k.client.askServer || !out.bodyKept) && rec.Age() < p.Retention-p.margin() {
		k.op.prior, k.op.fixedKey = true, true
		k.unknown = false
		k.applied = true
		return k.send()
	}
	k.fromStore = true
	resp, e := k.recall(out)
	if o := k.client.observer; o != nil {
		ctx := o.StartOperation(k.Context, k.startOf())
		o.EndOperation(ctx, OperationEnd{
			Operation: k.op.name, Key: k.op.key, Elapsed: time.Since(k.first.start), Effect: out.effect, Stored: true, Replayed: true, Err: e,
		})
	}
	return resp, e
}

// recall is what a settled operation's record says.
func (k *call) recall(out outcome) (*http.Response, *Error) {
	resp := k.storedResponse(out)
	if out.code == "" && !out.bodyKept {
		return nil, &Error{
			Code: taxonomy.ResultNotStored, Operation: k.op.name, Key: k.op.key, Effect: Applied, Response: resp, StatusCode: statusOf(resp),
			Err: errors.New("redo: the result was too long to be kept here, and the server may have forgotten it: fetch the resource"),
		}
	}
	if out.code == "" {
		return resp, nil
	}
	return resp, &Error{
		Code: out.code, Operation: k.op.name, Key: k.op.key, Effect: out.effect, Response: resp, StatusCode: statusOf(resp), said: out.said,
		Err: errors.New("redo: this operation's final answer is on record, nothing was sent: find out what happened, then Forget it"),
	}
}

func statusOf(resp *http.Response) int {
	if resp == nil {
		return 0
	}
	return resp.StatusCode
}

// storedResponse rebuilds the answer that is on record; nil when there was none.
func (k *call) storedResponse(out outcome) *http.Response {
	r := out.response
	if r == nil {
		return nil
	}
	h := r.Header
	if h == nil {
		h = http.Header{}
	}
	return &http.Response{
		Status:     fmt.Sprintf("%d %s", r.Status, http.StatusText(r.Status)),
		StatusCode: r.Status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: h, Body: io.NopCloser(bytes.NewReader(r.Body)), ContentLength: int64(len(r.Body)),
		Request: k.req.WithContext(k),
	}
}
