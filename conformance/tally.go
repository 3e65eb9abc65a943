package conformance

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redo-go/redo/internal/wire"
)

// tally counts the effects that a trial has made, and bounds those that it may have made.
type tally struct {
	start int             // the target's count when the trial began
	base  int             // the count from which effects are counted, see anew
	ids   map[string]bool // of effects, if responses name them

	asked   map[string]bool // the requested operations: each may have one effect
	before  int             // the number of operations requested before the last anew
	unkeyed int             // requests without a key: each may have one too
	extra   int             // allowed by the case beyond that
	unit    int             // effects of one operation; zero is one
	exact   *int            // the last count since start that was judged right; cleared by the next request

	uncounted bool // the counter does not see this trial's operation
	seen      int  // the count since start when the trial ended
	excess    bool // more effects than operations were counted
	last      *int // the last count since base, for the report
}

// add counts the effects that a request may have, and the effect that its response names.
func (c *tally) add(target Target, r request, a *answer) {
	if wire.SafeMethod(r.method) {
		return
	}
	c.exact = nil
	path, _, _ := strings.Cut(r.path, "?")
	scope := r.method + " " + path
	var keys []string
	for _, f := range r.fields {
		switch {
		case strings.EqualFold(f.name, target.keyHeader()):
			keys = append(keys, strings.TrimSpace(f.value))
		case len(target.Principals) > 0 && ofPrincipal(target, f.name):
			scope += " " + f.value
		}
	}
	if r.key != "" {
		keys = append(keys, r.key)
	}
	if key := strings.Join(keys, ","); key == "" {
		c.unkeyed++
	} else {
		put(&c.asked, scope+" "+key)
	}
	if e := target.Effects; e != nil && e.ResponseID != "" && a.ok() {
		if v, err := valueAt(a.content(), e.ResponseID); err == nil && v != nil {
			put(&c.ids, scope+" "+fmt.Sprint(v))
		}
	}
}

// ofPrincipal reports whether a header identifies the principal.
func ofPrincipal(target Target, name string) bool {
	for _, p := range target.Principals {
		for header := range p.Headers {
			if strings.EqualFold(header, name) {
				return true
			}
		}
	}
	return false
}

func put(set *map[string]bool, s string) {
	if *set == nil {
		*set = map[string]bool{}
	}
	(*set)[s] = true
}

// allowed returns the maximum number of effects of the trial.
func (c *tally) allowed() int { return c.operations() + c.extra }

// operations returns the number of effects that the trial has requested.
func (c *tally) operations() int { return (len(c.asked) + c.unkeyed) * max(c.unit, 1) }

// bound returns the final maximum of the trial's effects. It is the count that was judged right or, without one,
// the allowed number.
func (c *tally) bound() int {
	if c.exact != nil {
		return *c.exact
	}
	return c.allowed()
}

// fx reports whether effects are counted, and the counter was shown to count.
func (t *trial) fx() bool { return t.run.target.Effects != nil && t.run.counts && !t.tally.uncounted }

// total returns the target's count for this trial.
func (t *trial) total() int {
	if t.run.target.Effects.ResponseID != "" {
		t.mu.Lock()
		defer t.mu.Unlock()
		return len(t.tally.ids)
	}
	n, err := t.run.count(t.ctx, t.word)
	if t.ctx.Err() != nil {
		panic(stopped{})
	}
	if errors.Is(err, ErrUnreachable) {
		t.unreachable(err)
	}
	if err != nil {
		t.run.halt(reasonOf(t.ctx, err), err)
		t.stop(Harness, "", err.Error())
	}
	return n
}

// effects returns the number of effects of the trial since the last anew. An effect may come after its response,
// so effects waits while there are fewer than expected. Surplus effects are counted at the end of the run.
func (t *trial) effects(expected int) int {
	e := t.run.target.Effects
	end := time.Now().Add(t.run.target.patience())
	for again := 5 * time.Millisecond; ; again = min(2*again, 100*time.Millisecond) {
		n := t.total() - t.tally.base
		if n >= expected || e.ResponseID != "" || time.Now().After(end) {
			t.tally.last = &n
			return n
		}
		t.wait(again)
	}
}

// patience is the time to wait for a missing effect.
func (t Target) patience() time.Duration { return cmp.Or(t.settle(), time.Second) }

// anew excludes the trial's effects so far, because the requests did not reach the judged situation. These effects
// may be late.
func (t *trial) anew() {
	if t.fx() {
		t.tally.base += t.effects(t.tally.operations() - t.tally.before)
		t.tally.before = t.tally.operations()
	}
}

// effect judges the number of effects if they are counted. Too few are judged at the case's level. Too many are a
// failure at every level: no rule justifies more than one effect for one key.
func (t *trial) effect(n int) bool {
	if !t.fx() {
		return true
	}
	n *= max(t.tally.unit, 1)
	got := t.effects(n)
	switch {
	case got > n:
		t.tally.excess = true
		return t.miscounted(Fail, effectsText(n), effectsText(got))
	case got < n:
		return t.miscounted(t.c.Level.verdict(), effectsText(n), effectsText(got))
	}
	sum := t.tally.base - t.tally.start + got
	t.tally.exact = &sum
	return true
}

// overrun reports a failure if there are more effects than requested operations, in any case.
func (t *trial) overrun() {
	if t.run.target.Effects == nil || !t.run.counts {
		return
	}
	n, allowed := len(t.tally.ids), t.tally.allowed()
	if t.run.target.Effects.ResponseID == "" {
		var err error
		if n, err = t.run.count(t.ctx, t.word); err != nil {
			return // the death of the target has ended the trial already
		}
	}
	n -= t.tally.start
	t.tally.seen = n
	if n > allowed && !t.tally.excess {
		t.tally.excess = true
		t.tally.last = &n
		t.miscounted(Fail, fmt.Sprintf("at most %s, one for each key", effectsText(allowed)), effectsText(n))
	}
}

// proven ends the trial unless the responses are shown to belong to one operation. There are two proofs: a single
// effect, or the responses of two operations differ while these are equal. After either proof the case judges a
// replay.
func (t *trial) proven(o Operation, first *answer, others ...*answer) {
	if t.fx() {
		n, unit := t.effects(max(t.tally.unit, 1)), max(t.tally.unit, 1)
		if n != unit {
			t.block(slugEffect, "there were %s, so these are no replays", effectsText(n))
		}
		return
	}
	telling := t.run.telling
	if o.String() != t.operation().String() {
		telling = differences(first, t.lesson(o).answer)
	}
	if len(telling) == 0 && t.tally.uncounted {
		t.skip("the effects of this operation are not counted, and all its responses are equal: no replay can be " +
			"told " +
			"from a new run")
	}
	if len(telling) == 0 {
		t.inconclusive("different operations get equal responses, and effects are not counted: no replay can be told " +
			"from a new run")
	}
	for _, a := range others {
		for _, d := range differences(first, a) {
			for _, x := range telling {
				if d == x {
					t.block(slugBody, "the responses differ in %v, so these are no replays", d)
				}
			}
		}
	}
}

func effectsText(n int) string {
	if n == 0 {
		return "no effect"
	}
	return plural(n, "effect")
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
