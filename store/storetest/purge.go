package storetest

import (
	"errors"
	"fmt"

	"github.com/redo-go/redo/store"
)

var purgeCases = []Case{{
	Name: "purge deletes what has expired, at most limit at a time",
	Rule: "Purge works in bounded batches and returns the number of deleted records. A number below the limit means " +
		"that no expired record is left, so that its caller knows when to stop.",
	run: func(t *trial) {
		const expired, limit = 7, 3
		st := t.open()
		t.reserve(st, unleased("live"), store.Acquired)
		t.expired(st, expired)
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
	Rule: "Purge deletes no record before its expiry, in any state: without its settled record the work is done " +
		"again. It does not count a record that was released.",
	run: func(t *trial) {
		st := t.open()
		before := t.unexpired(st)
		t.ok(st.Release(t.Context(), t.reserve(st, leased("released"), store.Acquired).Lease), "Release")
		t.pass(st, before[0].ID, 2*short)
		t.purgesNothing(st)
		for _, r := range before {
			t.unchanged(st, r)
		}
	},
}, {
	Name: "purge leaves a record whose lease is live",
	Rule: "Purge never deletes the record of an owner at work, even after the retention that its claim asked for. A " +
		"second owner would start beside it.",
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
	Rule: "Purge uses the current expiry: it neither deletes a record for an expiry that was moved, nor keeps it for " +
		"one.",
	run: func(t *trial) {
		st := t.open()
		later := t.postponed(st)
		sooner := t.settle(st, leased("sooner"), store.Outcome{Retention: short}).ID
		t.pass(st, later, 2*short)
		n, err := st.Purge(t.Context(), 10)
		t.ok(err, "Purge")
		if n != 1 && !t.selfExpiring {
			t.fatalf("Purge deleted %d records, want the one that has expired", n)
		}
		t.state(t.find(st, later), store.StateComplete)
		t.absent(st, sooner)
	},
}, {
	Name: "purge deletes nothing before its expiry",
	Rule: "Purge and Find agree on the instant from which a record is absent: a record that is about to expire is " +
		"still there.",
	run: func(t *trial) {
		st := t.open()
		watch := t.reserve(st, leased("watch"), store.Acquired).Lease.ID
		// The record must be read before its expiry, which a slow machine may miss.
		for retention := short; retention < patience; retention *= 2 {
			c := unleased(retention.String())
			c.Retention = retention
			expiry := t.reserve(st, c, store.Acquired).Record.ExpiresAt
			_, err := st.Purge(t.Context(), 10)
			t.ok(err, "Purge")
			_, err = st.Find(t.Context(), c.ID)
			if left := expiry.Sub(t.find(st, watch).ReadAt); left > precision {
				t.ok(err, fmt.Sprintf("Find after a Purge, more than %v before the expiry", left))
				return
			}
		}
		t.fatalf("no record of at most %v could be read before it expired", patience)
	},
}, {
	Name: "reserve deletes expired records",
	Rule: "A Reserve that makes a record deletes two others that have expired, so that a store which is never purged " +
		"does not grow. A store of many parts may do so in the part of the new record only.",
	run: func(t *trial) {
		const expired = 64
		st := t.open()
		t.expired(st, expired)
		for i := range 2 * expired {
			t.reserve(st, unleased(fmt.Sprintf("new %d", i)), store.Acquired)
		}
		n, err := st.Purge(t.Context(), 2*expired)
		t.ok(err, "Purge")
		if n > expired/2 {
			t.fatalf("Purge deleted %d of %d expired records after %d new ones, want at most half",
				n, expired, 2*expired)
		}
	},
}, {
	Name: "reserve deletes nothing else",
	Rule: "A Reserve deletes no record that has not expired, or the work would be done again, and none whose lease " +
		"is live.",
	run: func(t *trial) {
		st := t.open()
		before := t.unexpired(st)
		t.pass(st, before[0].ID, 2*short)
		for i := range 16 {
			t.reserve(st, unleased(fmt.Sprintf("new %d", i)), store.Acquired)
		}
		for _, r := range before {
			t.unchanged(st, r)
		}
	},
}, {
	Name: "purge by less than one is refused",
	Rule: "A limit below 1 is an error, and deletes nothing.",
	run: func(t *trial) {
		st := t.open()
		for _, limit := range []int{0, -1} {
			if n, err := st.Purge(t.Context(), limit); n != 0 || !errors.Is(err, store.ErrInvalid) {
				t.fatalf("Purge by %d: %d deleted, error %v, want one that is %q", limit, n, err, store.ErrInvalid)
			}
		}
	},
}}

// expired makes n records that have expired, settled ones and a pending one. It does not read them: Find may delete an
// expired record, and so may a Reserve, so that all are reserved before the first one expires.
func (t *trial) expired(st store.Store, n int) {
	t.Helper()
	leases := make([]store.Lease, n-1)
	for i := range leases {
		leases[i] = t.reserve(st, unleased(fmt.Sprintf("expired %d", i)), store.Acquired).Lease
	}
	watch := t.reserve(st, leased("watch"), store.Acquired).Lease
	c := unleased("expired pending")
	c.Retention = short
	t.reserve(st, c, store.Acquired)
	for i, l := range leases {
		t.ok(st.Complete(t.Context(), l, store.Outcome{Failed: i%2 == 1, Retention: short}), "Complete")
	}
	t.pass(st, watch.ID, 2*short)
}

func (t *trial) purgesNothing(st store.Store) {
	t.Helper()
	if n, err := st.Purge(t.Context(), 10); n != 0 || err != nil {
		t.fatalf("Purge: %d deleted, error %v, want none and none", n, err)
	}
}

// unexpired makes records of every state that have not expired. One is past the retention of its claim, and the lease
// of another ends after short.
func (t *trial) unexpired(st store.Store) (records []store.Record) {
	t.Helper()
	t.reserve(st, leased("leased"), store.Acquired)
	t.reserve(st, unleased("unleased"), store.Acquired)
	t.settle(st, leased("complete"), store.Outcome{Result: []byte("result")})
	t.settle(st, leased("failed"), store.Outcome{Failed: true, Retention: long})
	c := leased("retained by its lease")
	c.Retention = short
	t.reserve(st, c, store.Acquired)
	c = leased("without its owner")
	c.Lease = short
	t.reserve(st, c, store.Acquired)
	for _, key := range []string{
		"leased", "unleased", "complete", "failed", "retained by its lease", "without its owner",
	} {
		records = append(records, t.find(st, leased(key).ID))
	}
	return records
}

// postponed makes a record whose first expiry is over and whose present one is not. The expiry must be moved
// before it comes. A slow machine may miss that: postponed then tries again with more time.
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
