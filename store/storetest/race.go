package storetest

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/redo-go/redo/store"
)

// rounds is the number of rounds of each race. A store that checks and then acts loses one of them.
const rounds = 32

var raceCases = []Case{{
	Name: "one of 64 racers acquires",
	Rule: "Reserve is atomic: of any number of callers that claim an absent ID with a lease exactly one acquires it, " +
		"and all others are in flight behind that one.",
	run: func(t *trial) {
		st := t.open()
		for round := range rounds {
			t.oneOwner(st, fmt.Sprintf("k%d", round), store.Acquired)
		}
	},
}, {
	Name: "one of 64 racers takes over",
	Rule: "Take-over is atomic too: of the callers that meet a record without a live lease exactly one gets it.",
	run: func(t *trial) {
		st := t.open()
		for round := range rounds {
			key := fmt.Sprintf("k%d", round)
			t.reserve(st, unleased(key), store.Acquired)
			t.oneOwner(st, key, store.TakenOver)
		}
	},
}, {
	Name: "racers without a lease get fences of their own",
	Rule: "Claims without a lease all succeed, one after the other: one acquires, the others take over, no two share " +
		"a fence, and the record is under the largest.",
	run: func(t *trial) {
		st := t.open()
		for round := range rounds {
			c := unleased(fmt.Sprintf("k%d", round))
			grants := t.raceToReserve(st, c, time.Second)
			acquired := 0
			fences := make([]uint64, racers)
			for i, g := range grants {
				if !g.Verdict.Owned() {
					t.fatalf("a claim got %q", g.Verdict)
				}
				if g.Verdict == store.Acquired {
					acquired++
				}
				fences[i] = g.Lease.Fence
			}
			slices.Sort(fences)
			if acquired != 1 || len(slices.Compact(slices.Clone(fences))) != racers {
				t.fatalf("%d claims acquired, and the fences are %v, want one and no two alike", acquired, fences)
			}
			if got := t.find(st, c.ID).Fence; got != fences[racers-1] {
				t.fatalf("the record is under fence %d, want the largest, %d", got, fences[racers-1])
			}
		}
	},
}, {
	Name: "one of 64 racing completions wins",
	Rule: "Complete compares and sets in one step: of any number under the same lease one settles the record, the " +
		"others are lost, and the result is the winner's.",
	run: func(t *trial) {
		st := t.open()
		for round := range rounds {
			l := t.reserve(st, leased(fmt.Sprintf("k%d", round)), store.Acquired).Lease
			errs := make([]error, racers)
			race(func(i int) {
				errs[i] = st.Complete(t.Context(), l, store.Outcome{Result: []byte{byte(1 + i)}})
			})
			winner := -1
			for i, err := range errs {
				switch {
				case err == nil && winner < 0:
					winner = i
				case err == nil:
					t.fatalf("completions %d and %d both succeeded", winner, i)
				case !errors.Is(err, store.ErrLost):
					t.fatalf("Complete: %v", err)
				}
			}
			if winner < 0 {
				t.fatalf("no completion succeeded")
			}
			t.bytes(t.find(st, l.ID).Result, []byte{byte(1 + winner)}, "the result")
		}
	},
}}

// oneOwner races claims with leases of which exactly one must be granted, with the verdict.
func (t *trial) oneOwner(st store.Store, key string, want store.Verdict) {
	t.Helper()
	var owner store.Lease
	owners := 0
	grants := t.raceToReserve(st, leased(key), 0)
	for _, g := range grants {
		if g.Verdict == want {
			owners++
			owner = g.Lease
		}
	}
	if owners != 1 {
		t.fatalf("%d of %d racers got %q, want exactly 1", owners, racers, want)
	}
	for _, g := range grants {
		if g.Verdict == want {
			continue
		}
		if g.Verdict != store.InFlight || g.Record.Fence != owner.Fence {
			t.fatalf("a racer got %q and was shown fence %d, want %q behind fence %d",
				g.Verdict, g.Record.Fence, store.InFlight, owner.Fence)
		}
	}
}

// raceToReserve returns the grants of racers with one claim. On a busy machine a store may not wait for all the claims
// before its own. So a racer that is in flight after patience claims again, unless patience is zero.
func (t *trial) raceToReserve(st store.Store, c store.Claim, patience time.Duration) []store.Grant {
	t.Helper()
	grants := make([]store.Grant, racers)
	errs := make([]error, racers)
	race(func(i int) {
		for range racers {
			began := time.Now()
			grants[i], errs[i] = st.Reserve(t.Context(), c)
			if grants[i].Verdict != store.InFlight || patience == 0 || time.Since(began) < patience {
				return
			}
		}
	})
	t.ok(errors.Join(errs...), "Reserve")
	return grants
}
