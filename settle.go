package redo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"time"

	"github.com/redo-go/redo/internal/wire"
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
func (k *call) settle(h *holding, out outcome, fingerprint store.Fingerprint) outcome {
	result, settled := k.settlement(&out)
	if out.body.streams && settled && out.err == nil {
		out.resp.Body = &recordedBody{
			ReadCloser:  out.resp.Body,
			call:        k,
			holding:     h,
			settlement:  result,
			fingerprint: fingerprint,
		}
		return out
	}
	ctx, cancel := k.settling()
	defer cancel()
	var err error
	switch {
	case settled:
		err = k.complete(ctx, h.lease, result, fingerprint)
	case out.effect == NotApplied:
		err = k.mark(ctx, h, true)
	case out.err != nil && k.rested(out):
		h.request.Rest = result.encode()
		if err = k.mark(ctx, h, false); err == nil {
			return k.probeResting(h, out)
		}
	}
	return k.settledAs(ctx, out, err)
}

// settledAs returns the call's outcome after a write to the store. err is the error of that write.
func (k *call) settledAs(ctx context.Context, out outcome, err error) outcome {
	switch {
	case err == nil:
		return out
	case !errors.Is(err, store.ErrLost):
		k.log(slog.LevelWarn, "outcome not stored: the operation stays pending", slog.Any("error", err))
	default:
		if e := k.contradiction(ctx, out); e != nil {
			out.err = e
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
func (k *call) contradiction(ctx context.Context, out outcome) *Error {
	op, err := k.client.Find(ctx, k.op.name)
	if err != nil || op.Finding == nil || out.effect == EffectUnknown || op.Effect == out.effect {
		return nil //nolint:nilerr // a record that can't be read shows no finding
	}
	e := &Error{
		Code: taxonomy.OutcomeUnknown, Operation: k.op.name, Key: k.op.key, Effect: out.effect,
		Attempts: out.attempts, Response: out.resp,
		Err: fmt.Errorf("%w: the response shows %q, %s recorded %q", ErrContradiction, out.effect, op.Finding.By, op.Effect),
	}
	if out.resp != nil {
		e.StatusCode = out.resp.StatusCode
	}
	switch {
	case out.err != nil:
		e.head, e.cut = out.err.head, out.err.cut
	case out.resp != nil: // the body of a success may still be open
		_ = out.resp.Body.Close()
		e.head = out.body.bytes
		out.resp.Body = io.NopCloser(bytes.NewReader(e.head))
	}
	return e
}

// complete writes a settlement and logs the change of state.
func (k *call) complete(ctx context.Context, lease store.Lease, s settlement, fingerprint store.Fingerprint) error {
	to, err := k.client.complete(ctx, lease, s)
	if err == nil {
		k.logTransition(fingerprint, "pending", to)
	}
	return err
}

// complete writes a settlement, and returns the new state.
func (c *Client) complete(ctx context.Context, lease store.Lease, s settlement) (to string, err error) {
	if s.effect != NotApplied {
		// A success may be lost in a crash: the server then replays it to the next call.
		return "complete", c.store.Complete(
			ctx,
			lease,
			store.Outcome{Result: s.encode(), Retention: c.keep, Lazy: s.code == "" && s.finding == nil},
		)
	}
	if _, forgets := c.store.(store.Forgetter); !forgets {
		return "failed", c.store.Release(ctx, lease)
	}
	// A failure must not be lost. The caller may correct the payload, which would mismatch a record that is pending.
	return "failed", c.store.Complete(ctx, lease, store.Outcome{Failed: true, Result: s.encode(), Retention: c.keep})
}

// logTransition logs an operation's change of state.
func (k *call) logTransition(fingerprint store.Fingerprint, from, to string) {
	k.log(
		slog.LevelDebug,
		"operation changed state",
		slog.String(logPayload, fingerprint.String()),
		slog.String(logFrom, from),
		slog.String(logTo, to),
	)
}

// mark records in the pending operation whether all attempts so far are known not to have been applied. Without the
// mark the next call treats the effect as unknown.
func (k *call) mark(ctx context.Context, h *holding, unapplied bool) error {
	h.request.Unapplied = unapplied
	meta, err := h.request.encode()
	if err != nil {
		return err
	}
	return k.client.store.Extend(ctx, h.lease, 0, meta)
}

// settlement returns the part of an outcome that is stored, and whether it settles the operation.
func (k *call) settlement(out *outcome) (s settlement, settled bool) {
	s = settlement{effect: out.effect, said: out.verdict.Said, bodyKept: true}
	if out.err == nil {
		if out.effect != Applied {
			return s, false // a redirect: the server sent the caller elsewhere
		}
		s.response = &wire.Response{Status: out.resp.StatusCode, Header: wire.EndToEnd(out.resp.Header), Body: out.body.bytes}
		if out.body.tooLong {
			s.response.Body, s.bodyKept = nil, false
		}
		return s.storable(out.resp), true
	}
	e := out.err
	if e.Code.In(taxonomy.Caller) || e.Code.In(taxonomy.Auth) && !out.verdict.Final {
		// Neither a caller who gave up nor refused credentials settle the operation. It stays pending under its key.
		return s, false
	}
	s.code = e.Code
	if e.Response != nil {
		s.response = &wire.Response{Status: e.StatusCode, Header: wire.EndToEnd(e.Response.Header), Body: e.head}
		if len(e.head) >= min(k.client.maxStored+1, maxErrorBody) || e.Err != nil { // too long, or cut off
			s.response.Body, s.bodyKept = nil, false
		}
		s = s.storable(e.Response)
	}
	return s, out.verdict.Class != taxonomy.ClassTransient && out.effect != EffectUnknown
}

// storable returns the settlement without a response that must not be stored: one with Cache-Control: no-store, or
// one that is over a limit of the envelope.
func (s settlement) storable(resp *http.Response) settlement {
	if wire.NoStore(resp.Header) || s.response.Check() != nil {
		s.response, s.bodyKept = nil, false
	}
	return s
}

// rested reports whether the operation comes to rest: its effect is unknown, and the server will return no other
// response for its key.
func (k *call) rested(out outcome) bool {
	code := out.err.Code
	return out.verdict.Class != taxonomy.ClassTransient && !code.In(taxonomy.Caller) &&
		(out.verdict.Final && !code.In(taxonomy.Auth) || code.In(taxonomy.KeyExpired) || code.In(taxonomy.OutcomeUnknown))
}

// A recordedBody is a streamed response's body. It settles the operation when the caller reads it to its end or
// closes it.
type recordedBody struct {
	io.ReadCloser
	call        *call
	holding     *holding
	settlement  settlement
	fingerprint store.Fingerprint
	done        bool
}

func (b *recordedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if s := &b.settlement; s.bodyKept && s.response != nil {
		s.response.Body = append(s.response.Body, p[:n]...)
		if len(s.response.Body) > b.call.client.maxStored {
			s.response.Body, s.bodyKept = nil, false
		}
	}
	if err != nil {
		whole := err == io.EOF //nolint:errorlint // a body's end is the bare io.EOF
		if lost := b.settle(whole); lost != nil {
			err = lost
		}
	}
	return n, err
}

func (b *recordedBody) Close() error {
	err := b.ReadCloser.Close()
	if lost := b.settle(false); lost != nil {
		return lost
	}
	return err
}

// settle writes the outcome once. A body that was not read to its end is not kept. The error is nil or matches
// ErrContradiction. Read and Close return it to the caller.
func (b *recordedBody) settle(whole bool) error {
	if b.done {
		return nil
	}
	b.done = true
	if !whole && b.settlement.response != nil {
		b.settlement.response.Body, b.settlement.bodyKept = nil, false
	}
	k := b.call
	ctx, cancel := k.settling()
	defer cancel()
	err := k.complete(ctx, b.holding.lease, b.settlement, b.fingerprint)
	if out := k.settledAs(ctx, outcome{effect: Applied}, err); out.err != nil {
		return out.err
	}
	return nil
}
