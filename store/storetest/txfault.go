package storetest

import (
	"errors"

	"github.com/redo-go/redo/store"
)

var txFaultCases = []Case{{
	Name: "lost response of a commit is settled by its fence",
	Rule: "If the response to Commit or Discard is lost, the error is ErrUnknown, or ErrUnavailable if nothing was " +
		"committed. A record that is settled under the grant's fence shows that everything was. Without such a " +
		"record nothing was.",
	run: func(t *trial) {
		st := t.openTx()
		watch := t.reserve(st, leased("watch"), store.Acquired).Lease
		for i, way := range settling {
			tx, g := t.begin(st, unleased(way.name), store.Acquired)
			t.write(tx, way.name)
			heal := t.inject(st, ResponseLost)
			err := way.end(tx, t.patient(), refusedWork)
			t.heal(st, heal, watch.ID)
			t.ok(tx.Rollback(t.patient()), "Rollback after "+way.name)
			settled := t.settles(st, unleased(way.name))
			t.lost(err, way.name, func() bool { return settled })
			if err != nil && !settled {
				t.undone(st, g, way.name)
				continue
			}
			t.settled(st, g, refusedWork)
			t.effects(st, way.name, 1-i)
		}
	},
}, {
	Name: "unreachable store commits nothing",
	Rule: "A Begin that does not reach the backend is ErrUnavailable. A Commit or Discard that does not reach it is " +
		"an error, and nothing of the transaction is kept.",
	run: func(t *trial) {
		st := t.openTx()
		watch := t.reserve(st, leased("watch"), store.Acquired).Lease
		for _, way := range settling {
			tx, g := t.begin(st, unleased(way.name), store.Acquired)
			t.write(tx, way.name)
			heal := t.inject(st, Unreachable)
			err := way.end(tx, t.patient(), store.Outcome{})
			if !errors.Is(err, store.ErrUnknown) {
				t.is(err, store.ErrUnavailable, way.name+" of an unreachable store")
			}
			t.noVerdict(err, way.name)
			t.notBegun(st, t.patient(), unleased("another"), store.ErrUnavailable, "Begin of an unreachable store")
			t.heal(st, heal, watch.ID)
			t.undone(st, g, way.name)
		}
	},
}, {
	Name: "closed store begins nothing",
	Rule: "After Close a Begin is ErrUnavailable.",
	run: func(t *trial) {
		st := t.openTx()
		t.inject(st, Closed)
		t.notBegun(st, t.patient(), unleased("k"), store.ErrUnavailable, "Begin of a closed store")
	},
}}

// settles waits for the end of a transaction whose commit may still be under way, and reports whether it was committed.
func (t *trial) settles(st store.TxStore[any], c store.Claim) (settled bool) {
	t.Helper()
	t.until("the transaction ends", func() bool {
		tx, g, err := st.Begin(t.patient(), c)
		t.ok(err, "Begin")
		if tx != nil {
			t.ok(tx.Rollback(t.Context()), "Rollback")
		}
		settled = g.Verdict == store.Failed
		return g.Verdict != store.InFlight
	})
	return settled
}
