package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/redo-go/redo/store"
)

var listerCases = []Case{{
	Name: "pending records are listed oldest first",
	Rule: "The caller resumes the oldest work first. A take-over or an extension does not make a record younger.",
	run: func(t *trial) {
		st := t.open()
		t.lister(st)
		// Neither the order of the keys nor its reverse is the order of creation.
		want := []string{"m", "z", "a", "q", "b", "y"}
		var first store.Lease
		for _, key := range want {
			l := t.reserve(st, unleased(key), store.Acquired).Lease
			if first.Fence == 0 {
				first = l
			}
			t.aged(st, l.ID, 2*precision)
		}
		t.order(st, want)
		t.reserve(st, unleased("z"), store.TakenOver)
		t.ok(st.Extend(t.Context(), first, long, []byte("meta")), "Extend")
		t.order(st, want)
	},
}, {
	Name: "only what is pending is listed",
	Rule: "Settled, released and expired records are not unfinished work. A live lease does not hide a record.",
	run: func(t *trial) {
		st := t.open()
		t.lister(st)
		t.settle(st, leased("complete"), store.Outcome{})
		t.settle(st, leased("failed"), store.Outcome{Failed: true})
		t.ok(st.Release(t.Context(), t.reserve(st, leased("released"), store.Acquired).Lease), "Release")
		t.reserve(st, leased("leased"), store.Acquired)
		t.reserve(st, unleased("unleased"), store.Acquired)
		// It is the last one that is made, because a Reserve may delete expired records.
		expired := unleased("expired")
		expired.Retention = short
		t.reserve(st, expired, store.Acquired)
		t.pass(st, leased("leased").ID, 2*short)
		t.listed(st, "scope", "leased", "unleased")
	},
}, {
	Name: "list is of one scope, or of all",
	Rule: "A scope's list has no record of another scope: a scope is bytes, and no pattern. The empty scope lists " +
		"every scope.",
	run: func(t *trial) {
		st := t.open()
		t.lister(st)
		for _, id := range []store.ID{
			{Scope: "a", Key: "1"}, {Scope: "ab", Key: "2"}, {Scope: "", Key: "3"}, {Scope: "a", Key: "4"},
			{Scope: "A", Key: "5"}, {Scope: "a%", Key: "6"}, {Scope: "_", Key: "7"}, {Scope: "*", Key: "8"},
			{Scope: "a ", Key: "9"},
		} {
			c := unleased("")
			c.ID = id
			t.reserve(st, c, store.Acquired)
		}
		t.listed(st, "a", "1", "4")
		t.listed(st, "ab", "2")
		t.listed(st, "b")
		for i, scope := range []string{"A", "a%", "_", "*", "a "} {
			t.listed(st, scope, fmt.Sprint(5+i))
		}
		t.listed(st, "", "1", "2", "3", "4", "5", "6", "7", "8", "9")
	},
}, {
	Name: "listed record is whole and a copy",
	Rule: "A listed record is equal to the one that Find returns, with the meta from which its operation is resumed.",
	run: func(t *trial) {
		st, c := t.open(), leased("k")
		want := t.reserve(st, c, store.Acquired).Record
		t.listed(st, c.ID.Scope, "k")
		for r, err := range t.lister(st).Pending(t.Context(), c.ID.Scope) {
			t.ok(err, "Pending")
			t.bytes(r.Meta, want.Meta, "the meta")
			if r.ID != want.ID || r.Owner != want.Owner || r.Fence != want.Fence ||
				r.Fingerprint != want.Fingerprint || r.State != want.State ||
				!r.CreatedAt.Equal(want.CreatedAt) || !r.LeaseUntil.Equal(want.LeaseUntil) ||
				!r.ExpiresAt.Equal(want.ExpiresAt) {
				t.fatalf("listed is %+v, want %+v", r, want)
			}
			if r.ReadAt.Before(r.CreatedAt) {
				t.fatalf("read at %v, before it was made at %v", r.ReadAt, r.CreatedAt)
			}
			clear(r.Meta)
		}
		t.unchanged(st, want)
	},
}, {
	Name: "store may be called inside the loop",
	Rule: "Pending holds no lock while the loop's body runs: the body may take over, complete and release listed " +
		"records and reserve others, which neither ends nor changes the list.",
	run: func(t *trial) {
		st := t.open()
		lister := t.lister(st)
		for i := range 10 {
			t.reserve(st, unleased(fmt.Sprint(i)), store.Acquired)
		}
		seen := 0
		for r, err := range lister.Pending(t.Context(), "scope") {
			t.ok(err, "Pending")
			seen++
			l := t.reserve(st, unleased(r.ID.Key), store.TakenOver).Lease
			if seen%2 == 0 {
				t.ok(st.Complete(t.Context(), l, store.Outcome{}), "Complete")
			} else {
				t.ok(st.Release(t.Context(), l), "Release")
			}
			c := unleased("made in the loop " + r.ID.Key)
			c.ID.Scope = "another scope"
			t.reserve(st, c, store.Acquired)
			_, err := st.Purge(t.Context(), 10)
			t.ok(err, "Purge")
		}
		if seen != 10 {
			t.fatalf("%d records were listed, want 10", seen)
		}
		t.listed(st, "scope")
	},
}, {
	Name: "list ends although its loop makes records",
	Rule: "A loop that makes a record for each listed one ends, however many pages the list has. It sees each record " +
		"once.",
	run: func(t *trial) {
		st := t.open()
		lister := t.lister(st)
		const n = 80
		for i := range n {
			t.reserve(st, unleased(fmt.Sprint(i)), store.Acquired)
		}
		seen, keys := 0, map[string]bool{}
		for r, err := range lister.Pending(t.Context(), "scope") {
			t.ok(err, "Pending")
			if keys[r.ID.Key] {
				t.fatalf("%v is listed twice", r.ID)
			}
			keys[r.ID.Key] = true
			if seen++; seen > 4*n {
				t.fatalf("the list goes on after %d records, at first there were %d", seen, n)
			}
			t.reserve(st, unleased(fmt.Sprint("made in the loop ", seen)), store.Acquired)
		}
		if seen < n {
			t.fatalf("%d records were listed, want %d at least", seen, n)
		}
	},
}, {
	Name: "list may be left early and made again",
	Rule: "Breaking out of the loop leaves nothing locked. A second loop over the same sequence reads the records " +
		"again.",
	run: func(t *trial) {
		st := t.open()
		list := t.lister(st).Pending(t.Context(), "scope")
		t.reserve(st, unleased("a"), store.Acquired)
		t.reserve(st, unleased("b"), store.Acquired)
		for range 3 {
			for _, err := range list {
				t.ok(err, "Pending")
				break
			}
			t.reserve(st, unleased("a"), store.TakenOver)
		}
		t.settle(st, unleased("c"), store.Outcome{})
		t.reserve(st, unleased("d"), store.Acquired)
		n := 0
		for _, err := range list {
			t.ok(err, "Pending")
			n++
		}
		if n != 3 {
			t.fatalf("the second loop listed %d records, want 3", n)
		}
	},
}, {
	Name: "list under an ended context yields the error last",
	Rule: "An error comes with a zero record and ends the list, so that a partial list is never taken for a whole " +
		"one.",
	run: func(t *trial) {
		st := t.open()
		t.reserve(st, leased("k"), store.Acquired)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		var last error
		for r, err := range t.lister(st).Pending(ctx, "scope") {
			if last != nil {
				t.fatalf("the list went on after the error %v", last)
			}
			if last = err; err != nil && r.ID != (store.ID{}) {
				t.fatalf("the error came with the record of %v", r.ID)
			}
		}
		t.is(last, context.Canceled, "Pending")
	},
}, {
	Name: "list whose context ends in the loop is whole, or ends with the error",
	Rule: "A list that was cut short yields the context's error last, so that a partial list is never taken for a " +
		"whole one.",
	run: func(t *trial) {
		st := t.open()
		lister := t.lister(st)
		const n = 10
		for i := range n {
			t.reserve(st, unleased(fmt.Sprint(i)), store.Acquired)
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		seen := 0
		var last error
		for r, err := range lister.Pending(ctx, "scope") {
			if last != nil || err != nil && r.ID != (store.ID{}) {
				t.fatalf("the list goes on with %v and error %v after the error %v", r.ID, err, last)
			}
			cancel()
			if last = err; err == nil {
				seen++
			}
		}
		if seen < n || last != nil {
			t.is(last, context.Canceled, fmt.Sprintf("Pending, after %d of %d records,", seen, n))
		}
	},
}, {
	Name: "lazy claim is listed at once",
	Rule: "Lazy defers durability only: a list has the claims that returned before it. It has no record that a lazy " +
		"Complete settled.",
	run: func(t *trial) {
		st := t.open()
		t.lister(st)
		for round := range rounds {
			c, settled := unleased(fmt.Sprint(round)), leased("settled")
			c.Lazy, c.ID.Scope, settled.ID.Scope = true, c.ID.Key, c.ID.Key
			t.settle(st, settled, store.Outcome{Lazy: true})
			t.reserve(st, c, store.Acquired)
			t.listed(st, c.ID.Scope, c.ID.Key)
		}
	},
}, {
	Name: "long list is whole",
	Rule: "A list of any length has each pending record once, also where one page ends and the next one begins. " +
		"Records may have been made at the same instant.",
	run: func(t *trial) {
		const n = 1100 // more than the usual pages
		st := t.open()
		t.lister(st)
		errs := make([]error, racers)
		race(func(i int) {
			for ; i < n; i += racers {
				_, err := st.Reserve(t.Context(), unleased(fmt.Sprintf("%04d", i)))
				errs[i%racers] = errors.Join(errs[i%racers], err)
			}
		})
		t.ok(errors.Join(errs...), "Reserve")
		for _, scope := range []string{"scope", ""} {
			keys := slices.Sorted(slices.Values(t.pending(st, scope)))
			if once := len(slices.Compact(slices.Clone(keys))); len(keys) != n || once != n {
				t.fatalf("%d records were listed, %d of them once, want %d", len(keys), once, n)
			}
		}
	},
}, {
	Name: "working store is ready",
	Rule: "Check returns nil on a store that serves, and changes nothing.",
	run: func(t *trial) {
		st := t.open()
		c, ok := st.(store.Checker)
		if !ok {
			t.Skipf("the store is no Checker")
		}
		t.ok(c.Check(t.Context()), "Check")
		g := t.reserve(st, leased("k"), store.Acquired)
		t.ok(c.Check(t.Context()), "Check")
		t.unchanged(st, g.Record)
	},
}}

func (t *trial) lister(st store.Store) store.Lister {
	t.Helper()
	l, ok := st.(store.Lister)
	if !ok {
		t.Skipf("the store is no Lister")
	}
	return l
}

// pending returns the keys of a list in its order.
func (t *trial) pending(st store.Store, scope string) []string {
	t.Helper()
	var keys []string
	for r, err := range t.lister(st).Pending(t.Context(), scope) {
		t.ok(err, "Pending")
		t.state(r, store.StatePending)
		keys = append(keys, r.ID.Key)
	}
	return keys
}

func (t *trial) order(st store.Store, want []string) {
	t.Helper()
	if got := t.pending(st, "scope"); !slices.Equal(got, want) {
		t.fatalf("listed are %q, want %q", got, want)
	}
}

// listed checks the keys of a list, in any order.
func (t *trial) listed(st store.Store, scope string, want ...string) {
	t.Helper()
	if got := slices.Sorted(slices.Values(t.pending(st, scope))); !slices.Equal(got, want) {
		t.fatalf("listed are %q, want %q", got, want)
	}
}
