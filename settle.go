package redo

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/redo-go/redo/internal/wire"
	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/taxonomy"
)

// settleTimeout bounds the write of an outcome. It is made also when the caller's context has ended.
const settleTimeout = 5 * time.Second

// sendStored makes the attempts and writes what came of them.
func (k *call) sendStored() (*http.Response, *Error) {
	k.op.stored = true
	resp, e := k.send()
	out, settled := k.outcome(e)
	if !settled && k.effect() != NotApplied {
		return resp, e // pending, as the record says
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(k.req.Context()), settleTimeout)
	defer cancel()
	var err error
	if settled {
		err = k.settle(ctx, out)
	} else {
		err = k.markUnapplied(ctx, true)
	}
	if err != nil && !errors.Is(err, store.ErrLost) { // lost: the same operation was called again meanwhile, and that call settles it
		k.logStore(err)
	}
	return resp, e
}

// settle writes the operation's outcome.
func (k *call) settle(ctx context.Context, out outcome) error {
	st, to := k.client.store, "complete"
	var err error
	if out.effect == NotApplied {
		to = "failed"
	}
	if _, forgets := st.(store.Forgetter); to == "failed" && !forgets {
		err = st.Release(ctx, k.claimed.lease)
	} else {
		// A success may be lost: the server answers the next call from its record. A failure must not be: the
		// caller may correct the payload, and a restart in between would hold the old one against it.
		err = st.Complete(ctx, k.claimed.lease, store.Outcome{
			Failed: to == "failed", Result: out.encode(), Retention: k.client.keep, Lazy: out.code == "",
		})
	}
	if err == nil {
		k.logTransition("pending", to)
	}
	return err
}

// markUnapplied notes in the pending record whether all attempts so far are known not to have been applied. Otherwise
// the next call, which finds the operation pending, would have to take its effect for unknown.
func (k *call) markUnapplied(ctx context.Context, is bool) error {
	k.claimed.request.Unapplied = is
	meta, err := k.claimed.request.encode()
	if err != nil || len(meta) > store.MaxMeta {
		return err // the record goes on saying less than is known
	}
	return k.client.store.Extend(ctx, k.claimed.lease, 0, meta)
}

// outcome is what is to be written of the operation, and whether it is settled at all.
func (k *call) outcome(e *Error) (outcome, bool) {
	out := outcome{effect: k.effect(), said: k.verdict.Said, response: k.claimed.answer, bodyKept: !k.claimed.tooLong}
	if k.verdict.Class == taxonomy.ClassSuccess && e == nil {
		if s := k.claimed.answer; s != nil && s.Status >= 300 && s.Status != http.StatusSeeOther {
			return out, false // the server sent the caller elsewhere, and has done nothing
		}
		if out.response == nil || out.response.Check() != nil { // an event stream, or headers beyond what is kept
			return outcome{effect: Applied}, true
		}
		return out, true
	}
	if e == nil || e.Code.In(taxonomy.Caller) || e.Code.In(taxonomy.Auth) && !k.verdict.Final {
		// Neither a caller who gave up nor credentials that were refused say anything against the operation: it goes
		// on under its key when there is time, or a fresh token.
		return out, false
	}
	out.code = e.Code
	if e.Response != nil {
		body := e.Response.Body
		limit := min(k.client.maxBody+1, maxErrorBody) // what has come in already: nothing is waited for
		head, err := io.ReadAll(io.LimitReader(body, int64(limit)))
		e.Response.Body = rejoin(head, body)
		if err == nil {
			out.bodyKept = len(head) < limit
			out.response = &wire.Response{Status: e.StatusCode, Header: wire.EndToEnd(e.Response.Header)}
			if out.bodyKept {
				out.response.Body = head
			}
			if out.response.Check() != nil {
				out.response, out.bodyKept = nil, false
			}
		}
	}
	switch {
	case out.effect == NotApplied, out.effect == Applied:
		return out, k.verdict.Class != taxonomy.ClassTransient
	default:
		return out, k.verdict.Class != taxonomy.ClassTransient && (k.verdict.Final || e.Code.In(taxonomy.KeyExpired) || e.Code.In(taxonomy.OutcomeUnknown))
	}
}
