package conformance

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/redo-go/redo/taxonomy"
)

// The size of conc-history's plan.
const (
	historyKeys    = 5
	historyWorkers = 6
	historyEach    = 10 // requests of each worker
)

var historyCases = []Case{{
	Slug: "conc-history", Level: Must, Needs: []Need{NeedEffects, NeedPayloads}, gated: true, after: append([]string{slugMismatch, slugSurvives}, replays...),
	Sequence: "a random plan from the seed: six clients, five keys, two payloads for each",
	Rule:     "There is an order in which each answer is right, and no request is refused as in flight that began after its key's success was seen. E=5.",
	Why:      "Races between a key's end and its record show only when many things happen at once.",
	Sources:  []Source{draft("2.6", Should), contract("the store contract", Must)},
	run:      runHistory,
}}

// An op is one request of a history and what was seen of it.
type op struct {
	key, payload int
	start, end   time.Time
	answer       *answer
	// What the answer may be. A refusal with a status of both kinds and no code may be either.
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
				done[w] = append(done[w], t.run.dialer.exchange(t.ctx, at(p)))
			}
		})
	}
	group.Wait()

	var ops []op
	note := func(label string, p planned, a *answer) {
		t.record(label, "", at(p), a)
		t.answered(a, label)
		o := op{key: p.key, payload: p.payload, start: a.sent, end: a.done, answer: a, success: a.ok()}
		// Which status a mismatch has is no MUST, and mismatch-body judges it: here any refusal may be one.
		o.inFlight, o.mismatch = t.run.profile.inFlight(a), a.refused() && a.mayBe(taxonomy.PayloadMismatch)
		if !o.success && !o.inFlight && !o.mismatch {
			t.want(false, "2xx, or a refusal as in flight or as a mismatch", a)
		}
		ops = append(ops, o)
	}
	for w, plan := range plans {
		for i, p := range plan {
			note(fmt.Sprintf("client %d, request %d, key %d, payload %d", w+1, i+1, p.key+1, p.payload+1), p, done[w][i])
		}
	}
	// At the end each key is asked once with each payload, by one client, so that it has a success and nothing overlaps it.
	for k := range keys {
		for b := range 2 {
			p := planned{k, b}
			note(fmt.Sprintf("at the end, key %d, payload %d", k+1, b+1), p, t.run.dialer.exchange(t.ctx, at(p)))
		}
	}
	for k := range keys {
		of := slices.DeleteFunc(slices.Clone(ops), func(o op) bool { return o.key != k })
		if why := contradiction(of); why != "" {
			t.want(false, fmt.Sprintf("an order in which each answer for key %d is right", k+1), why)
		}
	}
	t.effect(historyKeys)
}

// contradiction returns why no order explains what was seen of one key, empty when one does. Every request was answered.
//
// Besides a linearizability checker for any register this one is direct, because a key is a register that is written
// once. It is exact for the following reason. The key's life is two instants: R, when one request reserves it with its
// payload, and C, when that request's response is recorded; R <= C, both within that request. Every other request is decided
// at one instant d within itself, and what it is told follows from d:
//
//	a mismatch, with another payload:  R <= d
//	in flight:                         R <= d <= C
//	the response, with the payload:    C <= d
//
// Nothing else binds the instants, so a set of answers is explained if and only if one request with a success can be
// given an R and a C that leave each other request an instant within its own start and end. The earlier R and, as far as the
// successes' ends let it, the later C, the more is allowed: R only stands on the left of an inequality, and C on the right of
// one, save in C <= d, which asks for C <= end of each success. So it is enough to try R = the earliest start of a
// success and C = the earliest end of one. That request need not be the same: the one with the earliest start can be
// taken for the writer, its own end being no earlier than C. What is left to check are the four rules below.
//
// A refusal as in flight has no counterpart in a sequential history, where nothing is ever in flight. Its rule is the
// overlap, d <= C: it may not begin after a success has been seen to end.
func contradiction(ops []op) string {
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
		case !same(one.answer, o.answer):
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
			return fmt.Sprintf("refused as in flight (%s), %v after a success was seen", o.answer, o.start.Sub(completed).Round(time.Microsecond))
		case o.mismatch && !o.inFlight:
			return fmt.Sprintf("refused as another payload (%s), with the payload that succeeded", o.answer)
		}
	}
	return ""
}
