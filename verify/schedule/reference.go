package schedule

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/redo-go/redo"
	"github.com/redo-go/redo/store"
)

// A flaw is a rule of the protocol that a reference client breaks.
type flaw string

const (
	noFlaw        flaw = ""
	ignoresLoss   flaw = "sends although the mark was lost to another owner"
	ignoresPrior  flaw = "takes a refusal for the operation's, although an earlier request is unsettled"
	claimsBlindly flaw = "reports NotApplied although its record was lost to another owner"
	newKeys       flaw = "makes a new key for each attempt"
	sendsFirst    flaw = "sends before it reserves"
	forgetsMark   flaw = "sends while the record is marked as not applied"
	neverSettles  flaw = "never writes an outcome"
	claimsApplied flaw = "reports every response of the record as applied"
	deaf          flaw = "waits for a response that does not come"
)

// A reference client follows the state machine of CONTRACT.md §4 and nothing else. It proves that a client can keep
// the rules.
type reference struct {
	process *process
	gate    *gate
	flaw    flaw
}

// referenceWith makes reference clients with a flaw.
func referenceWith(f flaw) func(*process) (caller, error) {
	return func(p *process) (caller, error) {
		return &reference{process: p, gate: &gate{backend: p.run.store, process: p}, flaw: f}, nil
	}
}

// A note is the meta of a pending record.
type note struct {
	Key       string `json:"key"`
	Unapplied bool   `json:"unapplied"` // no request under the key has had its effect or can still have it
}

func (n note) encode() []byte {
	b, _ := json.Marshal(n) // a string and a bool always encode
	return b
}

var errBusy = errors.New("schedule: the record keeps changing")

func (c *reference) call(ctx context.Context, name string, _ bool) report {
	claim := store.Claim{ID: store.ID{Scope: "reference", Key: name}, Retention: store.Forever}
	for range 8 {
		n := note{Key: c.newKey()}
		if c.flaw == sendsFirst {
			c.attempt(ctx, n.Key)
		}
		claim.Meta = n.encode()
		g, err := c.gate.Reserve(ctx, claim)
		if err != nil {
			return report{err: err}
		}
		prior := g.Verdict == store.TakenOver
		switch g.Verdict {
		case store.Acquired:
		case store.TakenOver:
			if err := json.Unmarshal(g.Record.Meta, &n); err != nil {
				return report{err: err}
			}
			if !n.Unapplied || c.flaw == forgetsMark {
				prior = !n.Unapplied
				break
			}
			// The mark goes before the first byte. If another owner has the record, its key and its mark may
			// have changed.
			err := c.gate.Extend(ctx, g.Lease, 0, note{Key: n.Key}.encode())
			if errors.Is(err, store.ErrLost) && c.flaw != ignoresLoss {
				continue
			}
			if err != nil && !errors.Is(err, store.ErrLost) {
				return report{err: err}
			}
			prior = false
		case store.Complete:
			return decode(g.Record.Result)
		case store.Failed:
			if err := c.gate.Forget(ctx, g.Record.Lease()); err != nil && !errors.Is(err, store.ErrLost) {
				return report{err: err}
			}
			continue
		default:
			return report{err: fmt.Errorf("schedule: %v", g.Verdict)}
		}
		return c.send(ctx, g.Lease, n.Key, prior && c.flaw != ignoresPrior)
	}
	return report{err: errBusy}
}

func (c *reference) newKey() string {
	r := c.process.run
	r.mu.Lock()
	defer r.mu.Unlock()
	r.minted++
	return fmt.Sprintf("key-%d", r.minted)
}

// send makes the attempts and settles the operation.
func (c *reference) send(ctx context.Context, l store.Lease, key string, unknown bool) report {
	var a answer
	for range c.process.run.attempts {
		if c.flaw == newKeys {
			key = c.newKey()
		}
		a = c.attempt(ctx, key)
		if unknown = unknown || a.unknown; !a.transient || ctx.Err() != nil {
			break
		}
		time.Sleep(retryDelay)
	}
	if c.flaw == neverSettles {
		if !a.ok && (unknown || !a.record) {
			return report{err: a.err()}
		}
		return report{ok: a.ok, effect: redo.EffectUnknown, final: true, err: a.err()}
	}
	ctx = context.WithoutCancel(ctx)
	switch {
	case a.ok, a.record && (a.status >= 500 || c.flaw == claimsApplied):
		rep := report{ok: a.ok, effect: redo.EffectUnknown, final: true, err: a.err()}
		if a.ok || c.flaw == claimsApplied {
			rep.effect = redo.Applied
		}
		_ = c.gate.Complete(ctx, l, store.Outcome{Result: encode(rep)}) // if it is lost, the server replays
		return rep
	case unknown && !a.record:
		return report{err: a.err()}
	}
	// This call knows that nothing was applied. Whether another call has sent since then, only the store knows.
	var err error
	if a.transient || a.status == http.StatusUnauthorized {
		err = c.gate.Extend(ctx, l, 0, note{Key: key, Unapplied: true}.encode())
	} else {
		err = c.gate.Complete(ctx, l, store.Outcome{Failed: true})
	}
	if err != nil && c.flaw != claimsBlindly {
		return report{err: errors.Join(a.err(), err)}
	}
	return report{effect: redo.NotApplied, final: !a.transient, err: a.err()}
}

// An answer is the result of one attempt.
type answer struct {
	ok        bool
	status    int  // 0: no response
	record    bool // the response is the server's outcome for the key
	unknown   bool // the request may have its effect
	transient bool
	cause     error
}

func (a answer) err() error {
	if a.ok {
		return nil
	}
	return errors.Join(fmt.Errorf("schedule: status %d, unknown %v", a.status, a.unknown), a.cause)
}

// attempt sends one request and classifies the response.
func (c *reference) attempt(ctx context.Context, key string) answer {
	if c.flaw != deaf {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, attemptTimeout)
		defer cancel()
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, target, strings.NewReader("{}"))
	if err != nil {
		return answer{unknown: true, cause: err}
	}
	req.Header.Set("Idempotency-Key", key)
	resp, err := c.process.RoundTrip(req)
	if err != nil {
		op, ok := errors.AsType[*net.OpError](err)
		return answer{unknown: !ok || op.Op != "dial", transient: true, cause: err}
	}
	_ = resp.Body.Close()
	a := answer{status: resp.StatusCode}
	a.record = resp.Header.Get("Idempotency-Status") == "stored" || resp.Header.Get("Idempotent-Replayed") == "true"
	switch {
	case a.status < 300:
		a.ok = true
	case a.record:
	case a.status >= 500, a.status == http.StatusConflict:
		a.unknown, a.transient = true, true
	case a.status == http.StatusTooManyRequests:
		a.transient = true
	}
	return a
}

// encode writes a settled operation's outcome: the effect, and whether it is a success.
func encode(rep report) []byte {
	if rep.ok {
		return []byte("ok")
	}
	return []byte(rep.effect.String())
}

func decode(result []byte) report {
	if bytes.Equal(result, []byte("ok")) {
		return report{ok: true, effect: redo.Applied}
	}
	rep := report{effect: redo.EffectUnknown, final: true, err: errors.New("schedule: the outcome is unknown for good")}
	if string(result) == redo.Applied.String() {
		rep.effect = redo.Applied
	}
	return rep
}
