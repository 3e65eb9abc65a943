package storetest

import (
	"errors"
	"fmt"

	"github.com/redo-go/redo/store"
)

var handleCases = []Case{{
	Name: "two handles exclude each other",
	Rule: "A lease excludes every process on the backend. The backend's clock judges it: a handle with a wrong clock " +
		"takes nothing over early.",
	run: func(t *trial) {
		one, two := t.handles()
		l := t.reserve(one, leased("k"), store.Acquired).Lease
		if got := t.reserve(two, leased("k"), store.InFlight).Record; got.Fence != l.Fence || got.LeaseLeft() == 0 {
			t.fatalf("the other handle shows fence %d with %v left, want %d and a live lease",
				got.Fence, got.LeaseLeft(), l.Fence)
		}
		t.reserve(two, leased("other"), store.Acquired)
		t.reserve(one, leased("other"), store.InFlight)
	},
}, {
	Name: "two handles see each other's writes",
	Rule: "Find and Reserve see the effects of every call that has returned, through any handle.",
	run: func(t *trial) {
		one, two := t.handles()
		for i := range rounds {
			l := t.settle(one, leased(fmt.Sprint(i)), store.Outcome{Result: []byte("result")})
			t.state(t.find(two, l.ID), store.StateComplete)
			t.bytes(t.reserve(two, leased(fmt.Sprint(i)), store.Complete).Record.Result, []byte("result"), "the result")
			one, two = two, one
		}
	},
}, {
	Name: "lease is good through any handle",
	Rule: "A lease is an ID and a fence, and not bound to the handle that granted it. Its loss is seen through every " +
		"handle.",
	run: func(t *trial) {
		one, two := t.handles()
		stale := t.reserve(one, unleased("k"), store.Acquired).Lease
		l := t.reserve(two, leased("k"), store.TakenOver).Lease
		t.is(one.Complete(t.Context(), stale, store.Outcome{}), store.ErrLost, "Complete by the stale owner")
		t.ok(one.Extend(t.Context(), l, 2*long, nil), "Extend through the other handle")
		t.ok(one.Complete(t.Context(), l, store.Outcome{}), "Complete through the other handle")
		t.is(two.Complete(t.Context(), l, store.Outcome{}), store.ErrLost, "the second Complete")
	},
}, {
	Name: "fence grows over two handles",
	Rule: "Handles draw an ID's fences from one source: no two owners share one, and the later one's is larger.",
	run: func(t *trial) {
		one, two := t.handles()
		last := uint64(0)
		for i := range 16 {
			l := t.reserve(one, leased("k"), store.Acquired).Lease
			if i > 0 && l.Fence <= last {
				t.fatalf("the fence went from %d to %d", last, l.Fence)
			}
			last = l.Fence
			t.ok(one.Release(t.Context(), l), "Release")
			one, two = two, one
		}
	},
}, {
	Name: "wait ends when another handle ends it",
	Rule: "The owner is often another process. A store that wakes only the waiters of its own process lets the others " +
		"wait until their contexts end.",
	run: func(t *trial) {
		one, two := t.handles()
		t.waiter(two)
		for key, end := range map[string]func(l store.Lease) error{
			"completed": func(l store.Lease) error { return one.Complete(t.Context(), l, store.Outcome{}) },
			"released":  func(l store.Lease) error { return one.Release(t.Context(), l) },
		} {
			l := t.reserve(one, leased(key), store.Acquired).Lease
			wait := t.waiting(two, l, 1)
			t.ok(end(l), "the end of the record that is "+key)
			wait(nil)
		}
	},
}, {
	Name: "one of 64 racers over two handles acquires",
	Rule: "Reserve is atomic on the backend and not only within a process.",
	run: func(t *trial) {
		one, two := t.handles()
		for round := range rounds {
			c := leased(fmt.Sprint(round))
			var verdicts [racers]store.Verdict
			var errs [racers]error
			race(func(i int) {
				st := one
				if i%2 == 1 {
					st = two
				}
				g, err := st.Reserve(t.Context(), c)
				verdicts[i], errs[i] = g.Verdict, err
			})
			t.ok(errors.Join(errs[:]...), "Reserve")
			acquired := 0
			for _, v := range verdicts {
				switch v {
				case store.Acquired:
					acquired++
				case store.InFlight:
				default:
					t.fatalf("a racer got %q", v)
				}
			}
			if acquired != 1 {
				t.fatalf("%d of %d racers acquired, want exactly 1", acquired, racers)
			}
		}
	},
}}

func (t *trial) handles() (one, two store.Store) {
	t.Helper()
	if t.beside == nil {
		t.Skipf("no second handle: the suite was run without Beside")
	}
	one = t.open()
	return one, t.beside(one)
}
