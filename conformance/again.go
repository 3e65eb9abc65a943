package conformance

import (
	"context"
	"time"
)

// repeats reports whether a case must run again, alone. A failure that other traffic may have caused is not
// conclusive. More effects than operations prove a failure regardless of other traffic.
func (r *runner) repeats(c Case, res Result) bool {
	if c.last || r.proofs[c.Slug] || r.stopped != nil || len(res.Exchanges) == 0 {
		return false
	}
	switch res.Verdict {
	case Fail, Warn, Inconclusive, Harness:
		return true
	}
	return false
}

// repeat runs a failed case again with no other traffic. It keeps the combined result of both runs.
func (r *runner) repeat(ctx context.Context, c Case) {
	r.mu.Lock()
	first, ok := r.results[c.Slug]
	again := ok && r.repeats(c, first)
	r.mu.Unlock()
	if !again || ctx.Err() != nil {
		return
	}
	if !r.reachable(ctx) {
		return // the first run has the evidence
	}
	second := r.result(c)
	r.try(ctx, c, &second, "b")
	res := first
	if ctx.Err() == nil {
		res = settled(first, second)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.results[c.Slug] = res
	if r.settings.progress != nil {
		r.settings.progress(res)
	}
}

// reachable reports whether a connection to the target can be made.
func (r *runner) reachable(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, comeback)
	defer cancel()
	for {
		conn, err := r.dialer.dial(ctx)
		if err == nil {
			_ = conn.Close()
			return true
		}
		if !pause(ctx, 20*time.Millisecond) {
			return false
		}
	}
}

// settled returns the combined result of two runs of a case. The second run had no other traffic, so its verdict
// holds. A failure that only the first run saw becomes a separate finding.
func settled(first, second Result) Result {
	if !first.Verdict.broken() || second.Verdict != Pass && second.Verdict != Info {
		return second
	}
	found := Finding{Verdict: Info, Actual: onlyConcurrent}
	if len(first.Findings) > 0 {
		found.Expected, found.Actual = first.Findings[0].Expected, onlyConcurrent+": "+first.Findings[0].Actual
	}
	res := second
	if first.Verdict == Fail {
		found.Verdict, res.Verdict = Warn, Warn
		res.Exchanges, res.Curl, res.Rerun = first.Exchanges, "", "" // alone, the case passes
	}
	res.Findings = append([]Finding{found}, second.Findings...)
	res.OnlyConcurrent = true
	return res
}

// onlyConcurrent is the prefix of a finding that did not recur when the case ran alone.
const onlyConcurrent = "only under concurrent traffic, and not when the case was run alone"
