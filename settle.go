package redo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/redo-go/redo/internal/exchange"
	"github.com/redo-go/redo/internal/journal"
	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/taxonomy"
)

// settleTimeout bounds the write of an outcome. The outcome is written even after the caller's context has ended.
const settleTimeout = 5 * time.Second

// settling returns the context for the write of an outcome.
func (k *call) settling() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(k.req.Context()), settleTimeout)
}

// settle writes the outcome of a stored operation's call. It returns that outcome, which a finding may change.
func (k *call) settle(h *holding, out outcome) outcome {
	result, settled := k.settlement(out)
	if out.streams && settled && out.err == nil {
		k.record(h, out, result)
		return out
	}
	ctx, cancel := k.settling()
	defer cancel()
	var err error
	switch {
	case settled:
		err = k.complete(ctx, h.lease, h.fingerprint, result)
	case out.effect == NotApplied:
		err = k.mark(ctx, h, true)
	case out.err != nil && k.rested(out):
		h.request.Rest = result.Encode()
		if err = k.mark(ctx, h, false); errors.Is(err, store.ErrInvalid) { // the response is too long for the record
			result.Response, result.BodyKept = nil, false
			h.request.Rest = result.Encode()
			err = k.mark(ctx, h, false)
		}
		if err == nil {
			return k.probeResting(h, out)
		}
	}
	return k.settledAs(ctx, out, err)
}

// settlement returns the part of an outcome that is stored, and whether it settles the operation. A response that is
// over a limit of the record is left out.
func (k *call) settlement(out outcome) (s journal.Settlement, settled bool) {
	s = journal.Settlement{Effect: out.effect, Said: out.verdict.Said, BodyKept: true}
	whole := out.Cut == nil && len(out.Head) <= k.client.maxStored
	if out.err == nil {
		if out.effect != Applied {
			return s, false // a redirect: the server sent the caller elsewhere
		}
		s, _ = s.WithResponse(out.resp, out.Head, whole)
		return s, true
	}
	e := out.err
	if e.Code.In(taxonomy.Caller) || e.Code.In(taxonomy.Auth) && !out.verdict.Final {
		// Neither a caller who gave up nor refused credentials settle the operation. It stays pending under its key.
		return s, false
	}
	s.Code = e.Code
	if e.Response != nil {
		s, _ = s.WithResponse(e.Response, e.head, whole && len(e.head) < exchange.MaxErrorBody && e.Err == nil)
	}
	return s, out.verdict.Class != taxonomy.ClassTransient && out.effect != EffectUnknown
}

// rested reports whether the operation comes to rest: its effect is unknown, and the server will return no other
// response for its key.
func (k *call) rested(out outcome) bool {
	code := out.err.Code
	return out.verdict.Class != taxonomy.ClassTransient && !code.In(taxonomy.Caller) &&
		(out.verdict.Final && !code.In(taxonomy.Auth) || code.In(taxonomy.KeyExpired) || code.In(taxonomy.OutcomeUnknown))
}

// complete writes a settlement and logs the change of state.
func (k *call) complete(ctx context.Context, lease store.Lease, f store.Fingerprint, s journal.Settlement) error {
	to, err := k.client.journal.Conclude(ctx, lease, k.op.key, s)
	if err == nil {
		k.logTransition(f, "pending", to)
	}
	return err
}

// mark records in the pending operation whether all attempts so far are known not to have been applied. Without the
// mark the next call treats the effect as unknown.
func (k *call) mark(ctx context.Context, h *holding, unapplied bool) error {
	h.request.Unapplied = unapplied
	return k.client.journal.Mark(ctx, h.lease, h.request)
}

// settledAs returns the call's outcome after a write to the store. err is the error of that write.
func (k *call) settledAs(ctx context.Context, out outcome, err error) outcome {
	switch {
	case err == nil:
		return out
	case !errors.Is(err, store.ErrLost):
		k.log(slog.LevelWarn, "outcome not stored: the operation stays pending", slog.Any("error", err))
	default:
		if e := k.contradiction(out); e != nil {
			out.err, out.effect = e, e.Effect
			return out
		}
	}
	if out.effect == NotApplied && out.err != nil {
		// Another call may have taken the operation over, and "not applied" holds for this call's attempts only.
		out.effect, out.err.Effect, out.err.retry = EffectUnknown, EffectUnknown, true
		out.err.Err = errors.Join(fmt.Errorf("redo: the outcome was not stored: %w", err), out.err.Err)
	}
	return out
}

// contradiction returns an error if a finding that the response contradicts has settled the operation meanwhile. It
// returns nil if there is no such finding.
func (k *call) contradiction(out outcome) *Error {
	entry, err := k.entry()
	op := operationOf(entry)
	if err != nil || op.Finding == nil || out.effect == EffectUnknown || op.Effect == out.effect {
		return nil //nolint:nilerr // a record that can't be read shows no finding
	}
	effect := out.effect
	if effect == NotApplied && !out.verdict.Final {
		effect = EffectUnknown // this call's attempts were not applied; those of another call may have been
	}
	e := k.failed(taxonomy.OutcomeUnknown, effect, out.resp, fmt.Errorf("%w: the response shows %q, %s recorded %q",
		ErrContradiction, out.effect, op.Finding.By, op.Effect))
	e.Attempts = out.attempts
	switch {
	case out.err != nil:
		e.head, e.cut = out.err.head, out.err.cut
	case out.resp != nil: // the body of a success may still be open
		_ = out.resp.Body.Close()
		e.head = out.Head
		out.resp.Body = io.NopCloser(bytes.NewReader(e.head))
	}
	return e
}

// record settles the operation of a streamed response when the caller has read the body to its end or closes it. A body
// that was not read to its end is not kept. An error that matches ErrContradiction is returned to the caller by the
// body.
func (k *call) record(h *holding, out outcome, s journal.Settlement) {
	out.resp.Body = exchange.Record(out.resp, k.client.maxStored, func(body []byte, whole bool) error {
		if s.BodyKept && whole {
			s.Response.Body = body
		}
		s.BodyKept = s.BodyKept && whole
		ctx, cancel := k.settling()
		defer cancel()
		err := k.complete(ctx, h.lease, h.fingerprint, s)
		if out := k.settledAs(ctx, outcome{effect: Applied}, err); out.err != nil {
			return out.err
		}
		return nil
	})
}
