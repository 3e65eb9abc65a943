package redo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/redo-go/redo/internal/journal"
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
// and [ErrContradiction] otherwise. It returns an error if the finding has no Effect, Evidence or By, or before a call
// of the operation in this client has returned. The error matches store.ErrNotFound if there is no such operation.
func (c *Client) Settle(ctx context.Context, name string, f Finding) error {
	defer f.close()
	fail := func(err error) error { return fmt.Errorf("redo: Settle %q: %w", name, err) }
	switch {
	case !f.decides():
		return fail(errors.New("the finding's effect is unknown, it must be applied or not applied"))
	case f.Evidence == "" || f.By == "":
		return fail(errors.New("the finding needs Evidence and By"))
	case c.flights.UnderWay(name):
		return fail(errors.New("a call of the operation is under way"))
	}
	s, err := c.found(f) // once: it reads the response's body
	if err != nil {
		return fail(err)
	}
	return c.change(ctx, "Settle", name, func(rec store.Record) error {
		entry, err := journal.Read(rec) // a finding over a record that can't be read, such as a sealed one, destroys it
		switch {
		case err == nil && rec.State == store.StatePending:
			_, err = c.journal.Settle(ctx, rec.Lease(), s)
		case err == nil && entry.Effect() != f.Effect:
			err = fmt.Errorf("%w: it is recorded as %q, the finding is %q", ErrContradiction, entry.Effect(), f.Effect)
		}
		return err
	})
}

// decides reports whether the finding settles an operation.
func (f Finding) decides() bool { return f.Effect == Applied || f.Effect == NotApplied }

// close closes the body of the finding's response.
func (f Finding) close() {
	if f.Response != nil && f.Response.Body != nil {
		_ = f.Response.Body.Close()
	}
}

// found returns the settlement of a finding. It reads the body of the finding's response.
func (c *Client) found(f Finding) (journal.Settlement, error) {
	return journal.Found(f.Effect, journal.Finding{Evidence: f.Evidence, By: f.By}, f.Response, c.maxStored)
}

// rests returns the outcome of a pending operation that must not be sent again. Its final response left the effect
// unknown, or its key is too old. again is true if the probe settled it.
func (k *call) rests(entry journal.Entry) (out outcome, again bool) {
	if entry.Settlement != nil {
		out = k.replay(*entry.Settlement)
	} else {
		p, retention := &k.client.profile, k.client.retention.Known()
		out = k.refused(taxonomy.KeyExpired, entry.Effect(), fmt.Errorf("redo: the operation is older than the keys that "+
			"profile %q is known to remember (%v): find out what happened, then Settle or Forget it", p.Name, retention))
		// Another process may have sent the key just before it was too old. Until that call has ended, a probe that
		// finds nothing proves nothing.
		if left := k.usable() + max(k.policy.MaxElapsed, k.client.retry.MaxElapsed); left > 0 && k.client.probe != nil {
			out.err.RetryAt = time.Now().Add(left)
			return out, false
		}
	}
	return out, k.probe(entry, out.err)
}

// probe calls the client's probe function, and settles the operation if the function decides. It adds its own failure
// to e, which is the error of the call. settled is also true if another call has changed the record meanwhile.
func (k *call) probe(entry journal.Entry, e *Error) (settled bool) {
	if k.client.probe == nil {
		return false
	}
	// The probe's context has no operation's name: its requests would wait for the call that runs the probe.
	f, err := k.client.probe(context.WithValue(k.ctx, intentKey{}, intent{}), operationOf(entry))
	defer f.close()
	if err != nil {
		e.Err = errors.Join(e.Err, fmt.Errorf("redo: the probe failed: %w", wire.WithoutQuery(err)))
	}
	if err != nil || !f.decides() {
		return false
	}
	f.By = cmp.Or(f.By, "probe")
	s, err := k.client.found(f)
	if err == nil {
		ctx, cancel := k.settling()
		defer cancel()
		err = k.complete(ctx, entry.Record.Lease(), entry.Record.Fingerprint, s)
	}
	if err != nil && !errors.Is(err, store.ErrLost) {
		e.Err = errors.Join(e.Err, err)
		return false
	}
	return true
}

// probeResting runs the probe for an operation that this call left at rest. It returns the probe's outcome, or out if
// the probe decides nothing.
func (k *call) probeResting(h *holding, out outcome) outcome {
	if k.client.probe == nil {
		return out
	}
	entry, err := k.entry()
	if err != nil || entry.Record.State != store.StatePending || entry.Record.Fence != h.lease.Fence ||
		!k.probe(entry, out.err) {
		return out
	}
	entry, err = k.entry()
	if err != nil || entry.Record.State == store.StatePending || entry.Settlement == nil {
		return out
	}
	s := entry.Settlement
	answered := k.replay(*s)
	answered.attempts = out.attempts
	if e := answered.err; e != nil {
		e.Attempts = out.attempts
		if s.Effect == NotApplied && s.Finding != nil {
			e.Code, e.retry = taxonomy.OutcomeUnknown, true
			e.Err = fmt.Errorf("redo: not applied, found by %s: %s: calling again starts anew", s.Finding.By, s.Finding.Evidence)
		}
	}
	return answered
}
