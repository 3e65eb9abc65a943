package storetest

import (
	"time"

	"github.com/redo-go/redo/store"
)

var reopenCases = []Case{{
	Name: "settled record survives a restart",
	Rule: "A completed record is durable, with result and meta, or the work would be done again after a crash.",
	run: func(t *trial) {
		st := t.durable()
		for key, o := range map[string]store.Outcome{
			"complete": {Result: []byte("result")},
			"failed":   {Failed: true, Result: []byte{}},
			"nil":      {Retention: store.Forever},
		} {
			t.settle(st, leased(key), o)
		}
		var before []store.Record
		for _, key := range []string{"complete", "failed", "nil"} {
			before = append(before, t.find(st, leased(key).ID))
		}
		st = t.reopen(st)
		for _, r := range before {
			t.unchanged(st, r)
		}
		t.reserve(st, leased("complete"), store.Complete)
		t.reserve(st, leased("failed"), store.Failed)
	},
}, {
	Name: "pending record survives a restart with its lease",
	Rule: "A reserved record is durable. After a crash the lease still excludes and its owner may complete it, " +
		"unless opening voids leases. A record without a lease is taken over with its meta.",
	run: func(t *trial) {
		st := t.durable()
		held := t.reserve(st, leased("leased"), store.Acquired)
		free := t.reserve(st, unleased("unleased"), store.Acquired)
		t.ok(st.Extend(t.Context(), free.Lease, 0, []byte("progress")), "Extend")
		st = t.reopen(st)
		t.unchanged(st, t.reopened(held.Record))
		if t.leasesEnd {
			t.reserve(st, leased("leased"), store.TakenOver)
			t.is(st.Complete(t.Context(), held.Lease, store.Outcome{}), store.ErrLost, "Complete under the void lease")
		} else {
			t.reserve(st, leased("leased"), store.InFlight)
			t.ok(st.Complete(t.Context(), held.Lease, store.Outcome{}), "Complete after the restart")
		}
		t.bytes(t.reserve(st, unleased("unleased"), store.TakenOver).Record.Meta, []byte("progress"), "the meta")
	},
}, {
	Name: "removed record stays removed over a restart",
	Rule: "A record that was released, forgotten or purged does not come back.",
	run: func(t *trial) {
		st := t.durable()
		t.ok(st.Release(t.Context(), t.reserve(st, leased("released"), store.Acquired).Lease), "Release")
		if f, ok := st.(store.Forgetter); ok {
			t.ok(f.Forget(t.Context(), t.settle(st, leased("forgotten"), store.Outcome{})), "Forget")
		}
		c := unleased("purged")
		c.Retention = short
		t.reserve(st, c, store.Acquired)
		t.aged(st, t.reserve(st, leased("watch"), store.Acquired).Lease.ID, short)
		_, err := st.Purge(t.Context(), 10)
		t.ok(err, "Purge")
		st = t.reopen(st)
		for _, key := range []string{"released", "forgotten", "purged"} {
			t.absent(st, leased(key).ID)
		}
	},
}, {
	Name: "fence grows over a restart",
	Rule: "A lease from before the crash never fits a record made after it, also when its own record is gone.",
	run: func(t *trial) {
		st := t.durable()
		l := t.reserve(st, leased("k"), store.Acquired).Lease
		for range 3 {
			t.ok(st.Release(t.Context(), l), "Release")
			st = t.reopen(st)
			next := t.reserve(st, leased("k"), store.Acquired).Lease
			if next.Fence <= l.Fence {
				t.fatalf("the fence went from %d to %d", l.Fence, next.Fence)
			}
			t.is(st.Complete(t.Context(), l, store.Outcome{}), store.ErrLost, "Complete under the lease from before")
			l = next
		}
	},
}, {
	Name: "expiry survives a restart",
	Rule: "Retention goes on while the store is closed: an expired record is absent afterwards, and Purge finds it.",
	run: func(t *trial) {
		st := t.durable()
		keep := t.reserve(st, leased("k"), store.Acquired).Record
		c := unleased("expired")
		c.Retention = short
		t.reserve(st, c, store.Acquired)
		st = t.reopen(st)
		t.pass(st, keep.ID, 2*short)
		n, err := st.Purge(t.Context(), 10)
		t.ok(err, "Purge")
		if n != 1 && !t.selfExpiring {
			t.fatalf("Purge deleted %d records, want the one that has expired", n)
		}
		t.absent(st, c.ID)
		t.unchanged(st, t.reopened(keep))
	},
}}

// reopened returns the pending record as it must look after a restart.
func (t *trial) reopened(r store.Record) store.Record {
	if t.leasesEnd {
		r.LeaseUntil = time.Time{}
	}
	return r
}

func (t *trial) durable() store.Store {
	t.Helper()
	if t.reopen == nil {
		t.Skipf("not durable: the suite was run without Reopen")
	}
	return t.open()
}
