package mysqlstore_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/mysqlstore/mysqltest"
)

// A server that is restored, or promoted without the last writes, gives their numbers out again. An owner of the lost
// history must not release the record of a later owner, or settle it.
func TestALeaseOfALostHistoryFitsNoLaterRecord(t *testing.T) {
	p := newPlace(t, mysqltest.DSN(t))
	st := p.open(t)
	history := func() (leases []store.Lease) {
		leases = append(leases, reserve(t, st, unleased("new"), store.Acquired).Lease)
		reserve(t, st, unleased("taken over"), store.Acquired)
		return append(leases, reserve(t, st, unleased("taken over"), store.TakenOver).Lease)
	}
	lost := history()
	p.exec(t, "TRUNCATE TABLE redo_records")
	for i, l := range history() {
		require.Equal(t, l.Fence>>16, lost[i].Fence>>16, "the number is given out again")
		require.ErrorIs(t, st.Extend(t.Context(), lost[i], 1, nil), store.ErrLost)
		require.ErrorIs(t, st.Release(t.Context(), lost[i]), store.ErrLost)
		require.ErrorIs(t, st.Complete(t.Context(), lost[i], store.Outcome{}), store.ErrLost)
		require.NoError(t, st.Complete(t.Context(), l, store.Outcome{}))
	}
}

// A server refuses a write that a trigger forbids.
func TestATakeOverWhoseWriteIsRefusedChangesNothing(t *testing.T) {
	p := newPlace(t, mysqltest.DSN(t))
	st := p.open(t)
	before := reserve(t, st, unleased("k"), store.Acquired).Lease
	for _, write := range []string{"INSERT", "UPDATE", "DELETE"} {
		p.exec(t, "CREATE TRIGGER refuse BEFORE "+write+" ON redo_records FOR EACH ROW SIGNAL SQLSTATE '45000'")
		g, err := st.Reserve(t.Context(), unleased("k"))
		require.ErrorIs(t, err, store.ErrUnavailable, write)
		require.NotErrorIs(t, err, store.ErrUnknown, write)
		require.Zero(t, g, write)
		tx, g, err := st.Begin(t.Context(), unleased("k"))
		require.ErrorIs(t, err, store.ErrUnavailable, write)
		require.Nil(t, tx, write)
		require.Zero(t, g, write)
		p.exec(t, "DROP TRIGGER refuse")
	}
	require.Equal(t, 1, p.count(t, "SELECT COUNT(*) FROM redo_records"))
	require.NoError(t, st.Complete(t.Context(), before, store.Outcome{}), "the lease is the owner's as before")
}

// The owner settles the record while another claim takes it over.
func TestARecordThatIsSettledBeforeItIsLockedIsNotTakenOver(t *testing.T) {
	p, st, l := onALine(t)
	owner := p.open(t)
	lease := reserve(t, owner, unleased("k"), store.Acquired).Lease
	l.lose.Store(&loss{text: "SKIP LOCKED", done: true, open: func() {
		require.NoError(t, owner.Complete(t.Context(), lease, store.Outcome{Result: []byte("result")}))
	}})
	g := reserve(t, st, unleased("k"), store.Complete)
	require.Equal(t, []byte("result"), g.Record.Result)
	require.Equal(t, lease.Fence, g.Record.Fence)
}

// The server has given its last number out.
func TestATakeOverWithoutAFenceChangesNothing(t *testing.T) {
	p := newPlace(t, mysqltest.DSN(t))
	st := p.open(t)
	before := reserve(t, st, unleased("k"), store.Acquired).Lease
	p.exec(t, "ALTER TABLE redo_records AUTO_INCREMENT = 9223372036854775807")
	for range 2 { // the first one gets the number, which does not fit a fence
		g, err := st.Reserve(t.Context(), unleased("k"))
		require.ErrorIs(t, err, store.ErrUnavailable)
		require.Zero(t, g)
	}
	require.NoError(t, st.Complete(t.Context(), before, store.Outcome{}), "the lease is the owner's as before")
}
