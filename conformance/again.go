package conformance

import (
	"context"
	"slices"
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
	if err := r.reachable(ctx); err != nil {
		if ctx.Err() == nil {
			r.halt(StopUnreachable, diedOf(err))
		}
		return
	}
	second := r.result(c)
	r.try(ctx, c, &second, "b")
	res := first
	finished := ctx.Err() == nil
	if finished {
		res = settled(first, second)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.repeated[c.Slug] = finished
	r.results[c.Slug] = res
	if r.settings.progress != nil {
		r.settings.progress(res)
	}
}

// excuse withdraws the failures that the death of the target may have caused. Their cases miss a response, have no
// surplus effects, and could not run again.
func (r *runner) excuse() {
	if r.stopped == nil || r.stopped.Reason != StopUnreachable {
		return
	}
	for slug, res := range r.results {
		missing := slices.ContainsFunc(res.Exchanges, func(x *Exchange) bool { return x.Error != "" })
		if !res.Verdict.broken() || !missing || r.proofs[slug] || r.repeated[slug] {
			continue
		}
		res.Verdict, res.Reason = Harness, died
		res.Findings = append([]Finding{{Verdict: Harness, Actual: died}}, res.Findings...)
		r.results[slug] = res
	}
}

// reachable waits until a connection to the target can be made. It returns the last error if that takes too long.
func (r *runner) reachable(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, comeback)
	defer cancel()
	for {
		conn, err := r.dialer.dial(ctx)
		if err == nil {
			return conn.Close()
		}
		if !pause(ctx, 20*time.Millisecond) {
			return err
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
