package redo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/redo-go/redo/internal/wire"
	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/taxonomy"
)

// A Finding settles an operation whose outcome the client could not learn. It is kept in the operation's record.
type Finding struct {
	// Effect is Applied or NotApplied. EffectUnknown leaves the operation as it is.
	Effect Effect
	// Response is the response that another call of an applied operation returns: a 2xx with a body of at most
	// WithMaxStoredBody bytes. If it is nil or marked Cache-Control: no-store, that call fails with
	// taxonomy.ResultNotStored and the effect Applied. Its body is closed.
	Response *http.Response
	// Evidence is the reason, such as "GET /refunds?ref=9ab returned rf_1".
	Evidence string
	// By is the person or the program that made the finding. A probe's default is "probe".
	By string
}

// A ProbeFunc reads the resource back and returns the effect of an operation. It returns the zero Finding if it can't
// decide. It must be safe for concurrent use, and it must not call the operation.
type ProbeFunc func(ctx context.Context, op Operation) (Finding, error)

// Settle records a person's finding about a pending operation. An applied operation becomes complete, and another
// call returns the Finding's response. An operation that was not applied becomes failed, and another call starts anew
// with a new key.
//
// Settle changes nothing if the operation is settled already: it then returns nil if the recorded effect is the same,
// and [ErrContradiction] otherwise. It returns an error if the finding has no Effect, Evidence or By, or while a call
// of the operation is under way in this client. The error matches store.ErrNotFound if there is no such operation.
func (c *Client) Settle(ctx context.Context, name string, f Finding) error {
	fail := func(err error) error { return fmt.Errorf("redo: Settle %q: %w", name, err) }
	switch {
	case f.Effect != Applied && f.Effect != NotApplied:
		return fail(errors.New("the finding's effect is unknown, it must be applied or not applied"))
	case f.Evidence == "" || f.By == "":
		return fail(errors.New("the finding needs Evidence and By"))
	case c.flights.underWay(name):
		return fail(errors.New("a call of the operation is under way"))
	}
	s, err := c.found(f) // once: it reads the response's body
	if err != nil {
		return fail(err)
	}
	for range maxClaims {
		rec, err := c.find(ctx, name)
		if err != nil {
			return fail(err)
		}
		if rec.State != store.StatePending {
			op, err := c.operationOf(rec)
			if err != nil {
				return fail(err)
			}
			if op.Effect != f.Effect {
				return fail(fmt.Errorf("%w: it is recorded as %q, the finding is %q", ErrContradiction, op.Effect, f.Effect))
			}
			return nil
		}
		if _, err = c.complete(ctx, rec.Lease(), s); !errors.Is(err, store.ErrLost) {
			if err != nil {
				return fail(err)
			}
			return nil
		}
	}
	return fail(fmt.Errorf("%w: the record keeps changing", store.ErrUnavailable))
}

// found returns the settlement of a finding. It closes the body of the finding's response.
func (c *Client) found(f Finding) (settlement, error) {
	s := settlement{effect: f.Effect, finding: &Finding{Effect: f.Effect, Evidence: f.Evidence, By: f.By}}
	if f.Response != nil && f.Response.Body != nil {
		defer func() { _ = f.Response.Body.Close() }()
	}
	if f.Response == nil || f.Effect != Applied || wire.NoStore(f.Response.Header) {
		return s, nil
	}
	if status := f.Response.StatusCode; status/100 != 2 {
		return s, fmt.Errorf("the finding's response has the status %d, it must be a 2xx: another call returns it", status)
	}
	s.response = &wire.Response{Status: f.Response.StatusCode, Header: wire.EndToEnd(f.Response.Header)}
	if f.Response.Body != nil {
		b, err := io.ReadAll(io.LimitReader(f.Response.Body, int64(c.maxStored)+1))
		switch {
		case err != nil:
			return s, fmt.Errorf("reading the finding's response: %w", err)
		case len(b) > c.maxStored:
			return s, fmt.Errorf("the finding's response has more than the %d bytes of WithMaxStoredBody", c.maxStored)
		}
		s.response.Body = b
	}
	s.bodyKept = true
	return s, s.response.Check()
}

// rests returns the outcome of a pending operation that must not be sent again. Its final response left the effect
// unknown, or its key is too old. again is true if the probe settled it.
func (k *call) rests(rec store.Record, pending storedRequest) (h *holding, out outcome, again bool) {
	if pending.Rest == nil {
		p := k.client.profile
		out = k.refused(taxonomy.KeyExpired, EffectUnknown, nil)
		if pending.Unapplied {
			out.effect, out.err.Effect = NotApplied, NotApplied
		}
		out.err.Err = fmt.Errorf("redo: the operation is older than the keys that profile %q is known to remember (%v): "+
			"find out what happened, then Settle or Forget it", p.Name, p.Retention)
	} else {
		s, err := decodeSettlement(pending.Rest)
		if err != nil {
			return nil, k.storeFailure(err, EffectUnknown), false
		}
		out = k.replay(s)
	}
	settled, err := k.probe(rec)
	if err != nil {
		out.err.Err = errors.Join(out.err.Err, err)
	}
	return nil, out, settled
}

// probe calls the client's probe function, and settles the operation if the function decides.
func (k *call) probe(rec store.Record) (settled bool, err error) {
	if k.client.probe == nil {
		return false, nil
	}
	op, err := k.client.operationOf(rec)
	if err != nil {
		return false, err
	}
	// The probe's context has no operation's name: its requests would wait for the call that runs the probe.
	f, err := k.client.probe(context.WithValue(k.ctx, intentKey{}, intent{}), op)
	if err != nil {
		return false, fmt.Errorf("redo: the probe failed: %w", wire.WithoutQuery(err))
	}
	if f.Effect != Applied && f.Effect != NotApplied {
		return false, nil
	}
	if f.By == "" {
		f.By = "probe"
	}
	s, err := k.client.found(f)
	if err == nil {
		ctx, cancel := k.settling()
		defer cancel()
		err = k.complete(ctx, rec.Lease(), s, rec.Fingerprint)
	}
	if errors.Is(err, store.ErrLost) {
		return true, nil // another caller settled it, or took it over: its record is read again
	}
	return err == nil, err
}

// probeResting runs the probe for an operation that this call left at rest. It returns the probe's outcome, or out if
// the probe decides nothing.
func (k *call) probeResting(h *holding, out outcome) outcome {
	if k.client.probe == nil {
		return out
	}
	find := func() (store.Record, error) {
		ctx, cancel := k.settling()
		defer cancel()
		return k.client.store.Find(ctx, h.lease.ID)
	}
	rec, err := find()
	if err != nil || rec.State != store.StatePending || rec.Fence != h.lease.Fence {
		return out
	}
	settled, err := k.probe(rec)
	if err != nil {
		out.err.Err = errors.Join(out.err.Err, err)
	}
	if !settled {
		return out
	}
	if rec, err = find(); err != nil || rec.State == store.StatePending {
		return out
	}
	s, err := decodeSettlement(rec.Result)
	if err != nil {
		return out
	}
	answered := k.replay(s)
	answered.attempts = out.attempts
	if e := answered.err; e != nil {
		e.Attempts = out.attempts
		if s.effect == NotApplied && s.finding != nil {
			e.Code, e.retry = taxonomy.OutcomeUnknown, true
			e.Err = fmt.Errorf("redo: not applied, found by %s: %s: calling again starts anew", s.finding.By, s.finding.Evidence)
		}
	}
	return answered
}
