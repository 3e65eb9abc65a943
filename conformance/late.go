package conformance

import (
	"fmt"
	"time"

	"github.com/redo-go/redo/internal/wire"
)

// These constants bound the review at the end of a run.
const (
	lateAfter = 3200 * time.Millisecond // the age of the first keys when they are replayed
	lateKeys  = 60                      // the number of keys used by then
	lateFor   = 1 * time.Second         // the time to wait for unrequested effects
	mostEarly = 5
)

// early is one of the run's first operations, to be replayed at the run's end.
type early struct {
	request request
	answer  *answer
	word    string // the {{case}} of its trial
	start   int    // the count before it
}

// entry bounds the effects of a trial.
type entry struct {
	slug, word   string
	start, bound int
}

// remember keeps the main operations of the controls for the end of the run.
func (r *runner) remember(req request, a *answer, t *trial) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.early) < mostEarly && a.ok() && !wire.SafeMethod(req.method) {
		r.early = append(r.early, early{req, a, t.word, t.tally.start})
	}
}

// close ends a trial's count. Now and at the end of the run, there may be no more effects than operations.
func (t *trial) close() {
	if t.run.target.Effects == nil || !t.run.counts && t.c.Group() != "ctl" {
		return
	}
	if t.run.counts && !t.run.target.Effects.apart() && t.tally.exact == nil {
		// A late effect would be counted as the next trial's.
		t.effects(t.tally.allowed() - t.tally.base + t.tally.start)
	}
	t.overrun()
	t.run.mu.Lock()
	defer t.run.mu.Unlock()
	if t.tally.excess {
		t.run.proofs[t.c.Slug] = true
	}
	bound := t.tally.bound()
	if t.tally.excess {
		bound = max(bound, t.tally.seen) // it was reported
	}
	t.run.ledger = append(t.run.ledger, entry{t.c.Slug, t.word, t.tally.start, bound})
	t.run.keysUsed += len(t.tally.asked)
}

var lateCases = []Case{{
	Slug: "late-replay", Level: Must, gated: true, last: true,
	Sequence: "the first keys of the run, again at its end: 3 seconds and 60 keys later, or more",
	Rule:     "The first keys still replay: the same responses, and no further effect.",
	Why: "Records that are dropped after a few seconds, or a few keys, run a retry again long before " +
		"the retention ends.",
	Sources: []Source{draft("2.3", Should), draft("2.6", Should), contract("retention", Must)},
	run: func(t *trial) {
		firsts := t.run.early
		if len(firsts) == 0 {
			t.inconclusive("no control has succeeded")
		}
		if keep := time.Duration(t.run.target.Retention); keep > 0 &&
			keep < 2*time.Since(firsts[0].answer.sent)+lateAfter {
			t.skip("the target keeps keys for %v, and the run took longer", keep)
		}
		for n := t.run.keysUsed; n < lateKeys; n++ {
			t.accept("another key", t.request(t.operation(), t.key(), t.payload()))
		}
		t.wait(time.Until(firsts[0].answer.done.Add(lateAfter)))
		for i, first := range firsts {
			age := time.Since(first.answer.done)
			a := t.patiently(fmt.Sprintf("key %d of the run again, %v later", i+1, age.Round(100*time.Millisecond)),
				first.request, 2*time.Second)
			t.must(t.run.alike(first.answer, a), "the first response again, "+first.answer.String(),
				t.unlike(first.answer, a))
			if !t.fx() && !t.ended() {
				t.proven(t.operation(), first.answer, a)
			}
		}
		t.recount(func(e entry) bool { return isControl(e.slug) })
	},
}, {
	Slug: "late-effects", Level: Must, Needs: []Need{NeedEffects}, last: true,
	Sequence: "one key three times; a second later, the effects of every case of the run are counted again",
	Rule:     "No effect comes after its time: every case's count stays within its keys.",
	Why:      "A queue that is fed twice pays twice, and does so when the tests are over.",
	Sources:  []Source{draft("2.6", Should), contract("each operation takes effect once", Must)},
	run: func(t *trial) {
		if t.run.target.Effects.ResponseID != "" {
			t.skip("effects are counted by the ids in responses, and a late effect has no response")
		}
		t.thrice()
		t.wait(max(lateFor, t.run.target.settle()))
		t.effect(1)
		t.recount(func(entry) bool { return true })
	},
}}

func isControl(slug string) bool { return Case{Slug: slug}.Group() == "ctl" }

// recount counts the effects of earlier trials again.
func (t *trial) recount(which func(entry) bool) {
	e := t.run.target.Effects
	if e == nil || e.ResponseID != "" || !t.run.counts {
		return
	}
	entries := t.run.ledger
	if !e.isolated() {
		// All cases share one count.
		sum := entry{slug: "all cases together", start: entries[0].start, bound: t.tally.allowed()}
		for _, entry := range entries {
			sum.bound += entry.bound
		}
		entries = []entry{sum}
		which = func(entry) bool { return true }
	}
	for i, entry := range entries {
		if !which(entry) {
			continue
		}
		n, err := t.run.count(t.ctx, entry.word)
		if err != nil {
			t.inconclusive("the effects of %s could not be counted again: %v", entry.slug, err)
		}
		if n -= entry.start; n > entry.bound {
			t.tally.excess = true
			t.must(false, fmt.Sprintf("at most %s of %s", effectsText(entry.bound), entry.slug), effectsText(n))
			entries[i].bound = n // so it is not reported twice
		}
	}
}
