package redo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/redo-go/redo/internal/exchange"
	"github.com/redo-go/redo/internal/journal"
	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/taxonomy"
)

const (
	maxClaims     = 16              // claims of one call: another caller may change the record in between
	lookupTimeout = 1 * time.Second // bounds the read of a record outside of a claim
)

// A holding is the right to send the request of a stored operation.
type holding struct {
	lease       store.Lease
	fingerprint store.Fingerprint
	request     journal.Request // as it is in the record
}

// runStored claims the call's operation in the store, and acts on the state that it finds.
func (k *call) runStored() outcome {
	claim, request, e := k.claim()
	if e != nil {
		return outcome{err: e, effect: e.Effect}
	}
	if intentOf(k.req.Context()).resumes {
		if _, err := k.entry(); errors.Is(err, store.ErrNotFound) {
			return k.gone()
		}
	}
	return k.shareFlight(claim.Fingerprint, func() outcome {
		for range maxClaims {
			grant, err := k.client.journal.Reserve(k.ctx, claim)
			if err != nil {
				if !k.op.given {
					k.op.key = "" // made for the claim, and not recorded
				}
				return k.storeFailure(err, k.recorded())
			}
			h, out, again := k.meet(grant, request)
			if h != nil {
				return k.settle(h, k.send())
			}
			if !again {
				return out
			}
		}
		return k.storeFailure(fmt.Errorf("%w: the operation's record keeps changing", store.ErrUnavailable), EffectUnknown)
	})
}

// claim reads the body, makes the key, and returns a claim with both, and the request that the claim stores.
func (k *call) claim() (store.Claim, journal.Request, *Error) {
	c := k.client
	fail := func(out outcome) (store.Claim, journal.Request, *Error) {
		return store.Claim{}, journal.Request{}, out.err
	}
	if err := k.body.Buffer(c.maxBuffered); err != nil {
		return fail(k.bodyFailure(err, k.unsent()))
	}
	if err := k.body.CheckReplayable(); err != nil {
		return fail(k.refused(taxonomy.BodyNotReplayable, k.unsent(), err))
	}
	if k.op.key == "" {
		op, e := c.makeKey(k.op)
		if e != nil {
			e.Effect = k.unsent()
			return fail(outcome{err: e})
		}
		k.op = op
	}
	meaning := c.meaning.Describe(k.req)
	fingerprint, whole, err := k.fingerprint(meaning)
	if err != nil {
		return fail(k.bodyFailure(fmt.Errorf("redo: reading the request's body: %w", err), k.unsent()))
	}
	request := journal.Request{Version: journal.Version, Key: k.op.key}
	if intentOf(k.req.Context()).resumes {
		request.Key, _ = RandomKeys("") // if the operation was forgotten just before, nothing is left under its old key
		request.Unapplied = true
	} else if !c.noRequests {
		request = meaning.Request(k.op.key, k.body.Bytes(), whole)
		request.JSON = k.mode == modeCall
	}
	now, busy := time.Now(), time.Duration(0)
	if deadline, ok := k.ctx.Deadline(); ok && k.mode == modeTransport { // an attempt there may exceed MaxElapsed
		busy = deadline.Sub(now) - c.retry.MaxElapsed
	}
	return store.Claim{
		ID: c.journal.ID(k.op.name), Fingerprint: fingerprint, Owner: journal.NewOwner(now, busy), Meta: request.Encode(),
		Retention: store.Forever, // an unsettled operation is never forgotten: that would give it a second key
	}, request, nil
}

// fingerprint returns the hash of the request. If the body is short enough to be stored, whole is true and the body is
// held in memory.
func (k *call) fingerprint(meaning journal.Description) (f store.Fingerprint, whole bool, err error) {
	body, whole, err := k.body.Open(k.client.maxStored)
	if err != nil {
		return f, false, err
	}
	defer func() { _ = body.Close() }()
	var payload io.Reader = body
	if own := k.client.fingerprint; own != nil {
		b, err := own(k.req, body)
		if err != nil {
			return f, false, fmt.Errorf("WithFingerprint: %w", err)
		}
		payload = bytes.NewReader(b)
	}
	f, err = meaning.Fingerprint(payload)
	return f, whole, err
}

// meet acts on the store's verdict. It returns one of three results. With a holding the caller sends the request. With
// again the caller claims the record anew. Otherwise out is the call's outcome. request is the request of the claim.
func (k *call) meet(grant store.Grant, request journal.Request) (h *holding, out outcome, again bool) {
	rec := grant.Record
	resumes := intentOf(k.req.Context()).resumes
	if grant.Verdict == store.Acquired && resumes {
		if err := k.client.journal.Forget(k.ctx, rec); err != nil && !errors.Is(err, store.ErrLost) {
			return nil, k.storeFailure(err, EffectUnknown), false
		}
		return nil, k.gone(), false
	}
	if grant.Verdict == store.Acquired {
		k.born, k.first, k.op.key = time.Now(), rec.CreatedAt, request.Key
		k.prior = k.op.given || k.op.lasting // another program may have sent the same key
		k.logTransition(rec.Fingerprint, "none", store.StatePending)
		return &holding{grant.Lease, rec.Fingerprint, request}, outcome{}, false
	}
	entry, err := journal.Read(rec)
	switch {
	case rec.State == store.StateFailed && resumes:
		return nil, k.gone(), false
	case grant.Verdict == store.Failed, grant.Verdict == store.Mismatch && rec.State == store.StateFailed:
		// The operation was not applied. It starts anew, with a new key. Another caller may forget the record first.
		if err := k.client.journal.Forget(k.ctx, rec); err != nil && !errors.Is(err, store.ErrLost) {
			return nil, k.storeFailure(fmt.Errorf("redo: starting a failed operation anew: %w", err), k.recorded()), false
		}
		if !k.op.given { // the failed operation's key is used up
			k.op.key = ""
		}
		return nil, outcome{}, true
	case grant.Verdict == store.Mismatch && resumes:
		k.op.key = entry.Request.Key
		return nil, k.refused(taxonomy.InvalidOperation, entry.Effect(), errors.New("redo: Resume: the stored request has "+
			"another fingerprint under this client's options: give it those of the client that stored it")), false
	case grant.Verdict == store.Mismatch:
		k.op.key = entry.Request.Key
		return nil, k.refused(taxonomy.PayloadMismatch, NotApplied, fmt.Errorf("redo: the operation is %v with another "+
			"payload (fingerprint %.12s…): send that payload, or name another operation", rec.State, rec.Fingerprint)), false
	case grant.Verdict == store.InFlight:
		out := k.refused(taxonomy.InFlight, EffectUnknown, errors.New("redo: another owner holds the operation's lease"))
		out.err.RetryAt = time.Now().Add(rec.LeaseLeft())
		return nil, out, false
	case grant.Verdict != store.TakenOver && grant.Verdict != store.Complete:
		err = fmt.Errorf("redo: the store returned the verdict %v", grant.Verdict)
	}
	if err != nil {
		return nil, k.storeFailure(err, EffectUnknown), false
	}
	given := k.op.key
	k.op.key, k.resumed, k.first = entry.Request.Key, true, rec.CreatedAt
	k.born = time.Now().Add(-rec.Age())
	switch {
	case grant.Verdict == store.Complete:
		return nil, k.recall(entry), false
	case k.op.given && given != k.op.key:
		return nil, k.refused(taxonomy.InvalidOperation, EffectUnknown,
			errors.New("redo: the operation is pending under another key than the given one")), false
	case entry.Settlement != nil || k.usable() <= 0:
		out, again = k.rests(entry)
		return nil, out, again
	}
	return k.resume(grant.Lease, entry)
}

// gone returns the outcome of Resume for an operation that is not pending any more.
func (k *call) gone() outcome {
	return k.refused(taxonomy.InvalidOperation, EffectUnknown, fmt.Errorf("redo: Resume: %w: the operation was "+
		"forgotten, or settled as not applied: call it anew", store.ErrNotFound))
}

// storeFailure returns the outcome of a call that ended before it sent anything, because the store failed or the
// caller's context ended. effect is the operation's known effect.
func (k *call) storeFailure(err error, effect Effect) outcome {
	if caller := exchange.Ended(k.req); caller != nil {
		return k.gaveUp(caller, err, effect)
	}
	if errors.Is(err, store.ErrInvalid) {
		return k.refused(taxonomy.InvalidOperation, effect, err)
	}
	return k.refused(taxonomy.Unavailable, effect, err)
}

// recorded returns the operation's effect after a claim failed and nothing was sent. NotApplied is a claim about the
// operation and not about this call, so it needs certainty that no earlier call sent it. A store that refuses to write
// may still be readable, and an absent record is certainty. If the store can't be read either, the effect is unknown.
// It is also unknown for a given or derived key, which another program may have sent.
func (k *call) recorded() Effect {
	entry, err := k.entry()
	switch {
	case errors.Is(err, store.ErrNotFound) && !k.op.lasting:
		return NotApplied
	case err != nil:
		return EffectUnknown
	}
	return entry.Effect()
}

// entry reads the operation's record. The read has its own time limit, since the caller's context may have ended.
func (k *call) entry() (journal.Entry, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(k.ctx), lookupTimeout)
	defer cancel()
	return k.client.journal.Find(ctx, k.op.name)
}

// resume continues a pending operation under its key and with its stored request.
func (k *call) resume(lease store.Lease, entry journal.Entry) (h *holding, out outcome, again bool) {
	k.restore(entry.Request)
	k.unknown, k.fence = !entry.Request.Unapplied, lease.Fence
	h = &holding{lease, entry.Record.Fingerprint, entry.Request}
	if entry.Request.Unapplied {
		// From the first byte on the effect is unknown. The record must show that before the byte is sent.
		switch err := k.mark(k.ctx, h, false); {
		case errors.Is(err, store.ErrLost):
			return nil, outcome{}, true // another caller took the operation over, so this record is out of date
		case err != nil:
			return nil, k.storeFailure(err, k.recorded()), false
		}
	}
	return h, outcome{}, false
}

// overtaken returns an error if a finding has settled the operation, or if it has a new key. Resume stops too if
// another caller has it, or has forgotten it. That caller may have seen a refusal, and an effect must not follow it.
func (k *call) overtaken() error {
	if !k.op.stored {
		return nil
	}
	entry, err := k.entry()
	op, resumes := operationOf(entry), intentOf(k.req.Context()).resumes
	lost := resumes && (op.State == store.StateFailed || op.State == store.StatePending && entry.Record.Fence != k.fence)
	if err == nil && (lost || op.Finding != nil || op.Key != k.op.key) || resumes && errors.Is(err, store.ErrNotFound) {
		return &exchange.Refused{Code: taxonomy.InFlight, Effect: EffectUnknown, Err: errors.New(
			"redo: another caller has taken the operation over, settled it or forgotten it")}
	}
	return nil // the key makes a repetition safe, also if the store can't be read or has lost the record
}

// restore replaces the request's body and stored headers with those of the record, which earlier attempts sent.
func (k *call) restore(pending journal.Request) {
	if !pending.Whole {
		return
	}
	k.body.Replace(pending.Body) // nil: no body
	k.header, k.restored = pending.Header, true
}

// recall returns a complete operation's outcome. It comes from the store, or from the server if the store does not hold
// the response or WithServerReplay is set.
func (k *call) recall(entry journal.Entry) outcome {
	s := entry.Settlement
	if s == nil {
		return k.storeFailure(errors.New("redo: the record of a complete operation has no outcome"), EffectUnknown)
	}
	if s.Code != "" || s.Finding != nil || !k.client.askServer && s.BodyKept || k.usable() <= 0 {
		return k.replay(*s)
	}
	k.restore(entry.Request)
	k.unknown = true
	out := k.send()
	out.effect = Applied
	if out.err != nil {
		out.err.Effect = Applied
	}
	return out
}

// replay returns the outcome that a settlement records.
func (k *call) replay(s journal.Settlement) outcome {
	ctx := context.WithValue(k.ctx, loopKey{}, &loop{call: k, fromStore: true})
	out := outcome{resp: s.HTTP(k.req.WithContext(ctx)), effect: s.Effect, stored: true}
	if s.Code == "" && s.BodyKept && out.resp != nil {
		return out
	}
	e := k.failed(s.Code, s.Effect, out.resp, errors.New("redo: this operation's final response is recorded, nothing "+
		"was sent: find out what happened, then Settle or Forget it"))
	e.said, e.sameKey, e.whole = s.Said, true, s.Code != "" && s.BodyKept
	if out.resp != nil {
		e.head = s.Response.Body
	}
	if s.Code == "" {
		e.Code = taxonomy.ResultNotStored
		e.Err = errors.New("redo: the response was not stored, and the server may have forgotten it: fetch the resource")
	}
	out.err = e
	return out
}
