package conformance

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/redo-go/redo/taxonomy"
)

// These constants set the size of conc-history's plan.
const (
	historyKeys    = 5
	historyWorkers = 6
	historyEach    = 10 // requests of each worker
)

var historyCases = []Case{{
	Slug: "conc-history", Level: Must, Needs: []Need{NeedEffects, NeedPayloads}, gated: true,
	Sequence: "a random plan from the seed: six clients, five keys, two payloads for each",
	Rule: "There is an order in which each response is right, and no request is refused as in flight " +
		"that began after its key's success was seen. One effect for each key.",
	Why:     "Races between a key's end and its record show only when many things happen together.",
	Sources: []Source{draft("2.6", Should), contract("the store contract", Must)},
	run:     runHistory,
}}

// op is one request of a history and its observed result.
type op struct {
	key, payload int
	start, end   time.Time
	answer       *answer
	// These are the possible meanings of the response. A refusal without a code may be in flight or a mismatch if the
	// profile allows its status for both.
	success, inFlight, mismatch bool
}

func runHistory(t *trial) {
	type planned struct{ key, payload int }
	keys := make([]string, historyKeys)
	payloads := make([][2]payload, historyKeys)
	for i := range keys {
		keys[i] = t.key()
		payloads[i] = [2]payload{t.payload(), t.payload()}
	}
	plans := make([][]planned, historyWorkers)
	for w := range plans {
		for range historyEach {
			p := planned{key: t.plan.IntN(historyKeys)}
			if t.plan.IntN(4) == 0 {
				p.payload = 1
			}
			plans[w] = append(plans[w], p)
		}
	}
	at := func(p planned) request { return t.request(t.operation(), keys[p.key], payloads[p.key][p.payload]) }

	done := make([][]*answer, historyWorkers)
	var group sync.WaitGroup
	for w, plan := range plans {
		group.Go(func() {
			for _, p := range plan {
				done[w] = append(done[w], t.run.exchange(t.ctx, t.run.dialer, at(p)))
			}
		})
	}
	group.Wait()

	var ops []op
	note := func(label string, p planned, a *answer) {
		t.record(label, "", at(p), a)
		t.answered(a, label)
		o := op{key: p.key, payload: p.payload, start: a.sent, end: a.done, answer: a, success: a.ok()}
		// No MUST fixes the status of a mismatch, and mismatch-body judges it. Here any refusal may be a mismatch.
		if t.run.ignoresPayload {
			o.payload = 0
		}
		o.inFlight, o.mismatch = t.run.profile.inFlight(a), a.refused() && t.run.profile.mayBe(a,
			taxonomy.PayloadMismatch)
		if !o.success && !o.inFlight && !o.mismatch {
			t.want(false, "2xx, or a refusal as in flight or as a mismatch", a)
		}
		ops = append(ops, o)
	}
	for w, plan := range plans {
		for i, p := range plan {
			note(fmt.Sprintf("client %d, request %d, key %d, payload %d", w+1, i+1, p.key+1, p.payload+1), p,
				done[w][i])
		}
	}
	// At the end one client sends each key once with each payload. So each key has a success that overlaps no other
	// request.
	for k := range keys {
		for b := range 2 {
			p := planned{k, b}
			note(fmt.Sprintf("at the end, key %d, payload %d", k+1, b+1), p, t.run.exchange(t.ctx, t.run.dialer, at(p)))
		}
	}
	for k := range keys {
		of := slices.DeleteFunc(slices.Clone(ops), func(o op) bool { return o.key != k })
		if why := contradiction(of, t.run.alike); why != "" {
			t.want(false, fmt.Sprintf("an order in which each response for key %d is right", k+1), why)
		}
	}
	t.effect(historyKeys)
}

// contradiction returns the reason why no order explains the responses of one key. It returns "" if an order
// exists. Every request must have a response.
//
// A linearizability checker works for any register. This check is direct, because a key is a register that is
// written once. It is exact for the following reason. The key's life has two instants. At R, one request reserves
// the key with its payload. At C, that request's response is recorded. R <= C, and both lie within that request.
// Every other request is decided at one instant d within that request, and its response follows from d:
//
//	a mismatch, with another payload:  R <= d
//	in flight:                         R <= d <= C
//	the response, with the payload:    C <= d
//
// No other constraint applies to the instants. So a set of responses is explained if and only if some successful
// request can be the writer. Its R and C must leave each other request an instant between that request's own start
// and end. An earlier R allows more, because R occurs only on the left of an inequality. A later C allows more,
// because C occurs only on the right, with one exception: C <= d requires that C <= the end of each success. So it
// is enough to try R = the earliest start of a success and C = the earliest end of one. These two may belong to
// different requests. The request with the earliest start can be the writer, because its own end is no earlier
// than C. The four rules below remain to be checked.
//
// A sequential history has no counterpart of a refusal as in flight, because none of its requests overlap. Its
// rule is the overlap, d <= C: the refused request may not start after a success was seen to end.
func contradiction(ops []op, alike func(a, b *answer) bool) string {
	payload := -1
	var one *op
	var reserved, completed time.Time // R and C
	for i, o := range ops {
		if !o.success {
			continue
		}
		if one == nil {
			one, payload, reserved, completed = &ops[i], o.payload, o.start, o.end
		}
		switch {
		case o.payload != payload:
			return fmt.Sprintf("both payloads succeeded: %s and %s", one.answer, o.answer)
		case !alike(one.answer, o.answer):
			return fmt.Sprintf("two successes differ: %s and %s", one.answer, o.answer)
		}
		if o.start.Before(reserved) {
			reserved = o.start
		}
		if o.end.Before(completed) {
			completed = o.end
		}
	}
	if one == nil {
		return "no request succeeded"
	}
	for _, o := range ops {
		switch {
		case o.end.Before(reserved):
			return fmt.Sprintf("%s, before any request that succeeded had begun", o.answer)
		case o.success, o.mismatch && o.payload != payload:
		case o.inFlight && o.start.After(completed):
			return fmt.Sprintf("refused as in flight (%s), %v after a success was seen", o.answer,
				o.start.Sub(completed).Round(time.Microsecond))
		case o.mismatch && !o.inFlight:
			return fmt.Sprintf("refused as another payload (%s), with the payload that succeeded", o.answer)
		}
	}
	return ""
}
