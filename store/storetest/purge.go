package storetest

import (
	"errors"
	"fmt"

	"github.com/redo-go/redo/store"
)

var purgeCases = []Case{{
	Name: "purge deletes what has expired, at most limit at a time",
	Rule: "Purge works in bounded batches and says how many it deleted; a return below the limit means that nothing is " +
		"left for now, so that its caller knows when to stop.",
	run: func(t *trial) {
		const expired, limit = 7, 3
		st := t.open()
		for i := range expired {
			c := unleased(fmt.Sprintf("expired %d", i))
			if i%2 == 0 {
				t.settle(st, c, store.Outcome{Retention: short})
			} else {
				c.Retention = short
				t.reserve(st, c, store.Acquired)
			}
		}
		t.reserve(st, unleased("live"), store.Acquired)
		// All of them were made before this one. They are not looked at themselves: Find may delete what it finds
		// expired, and Purge would have nothing to count.
		t.aged(st, unleased("live").ID, short)
		var got []int
		for sum, n := 0, limit; n == limit; {
			var err error
			n, err = st.Purge(t.Context(), limit)
			t.ok(err, "Purge")
			if sum += n; n < 0 || n > limit || sum > expired {
				t.fatalf("Purge by %d deleted %d after %v, and %d had expired", limit, n, got, expired)
			}
			got = append(got, n)
		}
		if want := []int{3, 3, 1}; !t.selfExpiring && fmt.Sprint(got) != fmt.Sprint(want) {
			t.fatalf("purges by %d deleted %v of %d expired records, want %v", limit, got, expired, want)
		}
		if n, err := st.Purge(t.Context(), limit); n != 0 || err != nil {
			t.fatalf("Purge with nothing left: %d deleted, error %v", n, err)
		}
	},
}, {
	Name: "purge leaves what has not expired",
	Rule: "Purge deletes expired records and no others, whatever their state: a settled record that is gone lets the work " +
		"run again.",
	run: func(t *trial) {
		st := t.open()
		t.reserve(st, leased("leased"), store.Acquired)
		t.reserve(st, unleased("unleased"), store.Acquired)
		t.settle(st, leased("complete"), store.Outcome{Result: []byte("result")})
		t.settle(st, leased("failed"), store.Outcome{Failed: true, Retention: long})
		var before []store.Record
		for _, key := range []string{"leased", "unleased", "complete", "failed"} {
			before = append(before, t.find(st, leased(key).ID))
		}
		t.aged(st, leased("leased").ID, short)
		t.purgesNothing(st)
		for _, r := range before {
			t.unchanged(st, r)
		}
	},
}, {
	Name: "purge leaves a record whose lease is live",
	Rule: "An owner at work is never purged, however long ago the retention it asked for was over, or a second owner " +
		"would start beside it.",
	run: func(t *trial) {
		st, c := t.open(), leased("k")
		c.Retention = short
		g := t.reserve(st, c, store.Acquired)
		t.aged(st, c.ID, 2*short)
		t.purgesNothing(st)
		t.unchanged(st, g.Record)
		t.reserve(st, c, store.InFlight)
	},
}, {
	Name: "purge goes by the expiry as it is now",
	Rule: "An expiry that was moved counts as moved: neither is a record purged for the expiry that it once had, nor kept " +
		"for it.",
	run: func(t *trial) {
		st := t.open()
		later := t.postponed(st)
		sooner := t.settle(st, leased("sooner"), store.Outcome{Retention: short}).ID
		t.reserve(st, leased("watch"), store.Acquired)
		t.aged(st, leased("watch").ID, 2*short)
		n, err := st.Purge(t.Context(), 10)
		t.ok(err, "Purge")
		if n != 1 && !t.selfExpiring {
			t.fatalf("Purge deleted %d records, want the one that has expired", n)
		}
		t.state(t.find(st, later), store.StateComplete)
		t.absent(st, sooner)
	},
}, {
	Name: "purge by less than one is refused",
	Rule: "A limit below 1 is an error and not a purge of nothing, or of everything.",
	run: func(t *trial) {
		st := t.open()
		for _, limit := range []int{0, -1} {
			if n, err := st.Purge(t.Context(), limit); n != 0 || !errors.Is(err, store.ErrInvalid) {
				t.fatalf("Purge by %d: %d deleted, error %v, want one that is %q", limit, n, err, store.ErrInvalid)
			}
		}
	},
}}

func (t *trial) purgesNothing(st store.Store) {
	t.Helper()
	if n, err := st.Purge(t.Context(), 10); n != 0 || err != nil {
		t.fatalf("Purge: %d deleted, error %v, want none and none", n, err)
	}
}

// postponed makes a record whose first expiry is over and whose present one is not. The expiry has to be moved
// before it comes, which a slow machine may miss: it is tried again with more time then.
func (t *trial) postponed(st store.Store) store.ID {
	t.Helper()
	for retention := short; ; retention *= 2 {
		c := unleased(fmt.Sprintf("later than %v", retention))
		c.Retention = retention
		l := t.reserve(st, c, store.Acquired).Lease
		err := st.Complete(t.Context(), l, store.Outcome{Retention: day})
		if errors.Is(err, store.ErrLost) && retention < patience {
			_, err := st.Purge(t.Context(), 10)
			t.ok(err, "Purge")
			continue
		}
		t.ok(err, "Complete")
		t.aged(st, l.ID, 2*retention)
		return l.ID
	}
}
