package pgstore

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/store"
)

func TestLocksOfDifferentClaimsDiffer(t *testing.T) {
	seen := map[int64]string{}
	one, two := newStatements("s", "one"), newStatements("s", "two")
	for name, q := range map[string]*statements{"one": &one, "two": &two} {
		for _, id := range []store.ID{{Key: "a"}, {Scope: "a", Key: "b"}, {Key: "ab"}, {Scope: "ab"}, {Scope: "a", Key: "bc"}, {Scope: "ab", Key: "c"}} {
			c := store.Claim{ID: id}
			l := q.lockOf(c)
			require.NotContains(t, seen, l.turn, "%s %v", name, id)
			seen[l.turn] = name
			c.Fingerprint = store.Raw("POST", "/", "", nil)
			other := q.lockOf(c)
			require.NotEqual(t, l.mark, other.mark)
			other.mark = l.mark
			require.Equal(t, l, other)
		}
	}
}

// A mismatch is final for who is told so. It takes a turn and a label of the ID, both of one backend.
func TestMismatchTakesTurnAndLabelOfOneHolder(t *testing.T) {
	s := testStore(t)
	c := store.Claim{ID: store.ID{Key: "k"}, Fingerprint: store.Raw("POST", "/", "", []byte("mine")), Retention: time.Hour}
	theirs := c
	theirs.Fingerprint = store.Raw("POST", "/", "", []byte("theirs"))
	verdict := func(want store.Verdict) {
		t.Helper()
		tx, g, err := s.Begin(t.Context(), c)
		require.NoError(t, err)
		require.Nil(t, tx)
		require.Equal(t, want, g.Verdict)
	}
	locking := func() pgx.Tx {
		t.Helper()
		conn, err := pgx.ConnectConfig(t.Context(), poolOf(s).Config().ConnConfig)
		require.NoError(t, err)
		t.Cleanup(func() { conn.Close(context.Background()) })
		tx, err := conn.Begin(t.Context())
		require.NoError(t, err)
		return tx
	}
	label := func(tx pgx.Tx, c store.Claim) {
		t.Helper()
		l := s.sql.lockOf(c)
		_, err := tx.Exec(t.Context(), "SELECT pg_advisory_xact_lock_shared($1::integer, $2::integer)", l.class, l.mark)
		require.NoError(t, err)
	}
	holder, bystander := locking(), locking()
	_, err := holder.Exec(t.Context(), "SELECT pg_advisory_xact_lock($1)", s.sql.lockOf(c).turn)
	require.NoError(t, err)
	verdict(store.InFlight) // a Reserve is writing, or a transaction drops its locks one by one
	label(bystander, theirs)
	verdict(store.InFlight)
	_, err = holder.Exec(t.Context(), "SAVEPOINT before")
	require.NoError(t, err)
	label(holder, c)
	verdict(store.InFlight)
	_, err = holder.Exec(t.Context(), "ROLLBACK TO SAVEPOINT before")
	require.NoError(t, err)
	label(holder, theirs)
	verdict(store.Mismatch)
	require.NoError(t, holder.Rollback(t.Context()))
	tx, g, err := s.Begin(t.Context(), c) // the bystander has nothing to say
	require.NoError(t, err)
	require.Equal(t, store.Acquired, g.Verdict)
	require.NoError(t, tx.Rollback(t.Context()))
}

// A Reserve waits for its turn behind another Reserve. When a transaction that stays open gets the turn instead, it does not
// wait for that to end.
func TestReserveGivesUpItsWaitBehindATransaction(t *testing.T) {
	s := testStore(t)
	c := store.Claim{ID: store.ID{Key: "k"}, Retention: time.Hour}
	l := s.sql.lockOf(c)
	holder, err := poolOf(s).Begin(t.Context())
	require.NoError(t, err)
	defer holder.Rollback(context.WithoutCancel(t.Context()))
	_, err = holder.Exec(t.Context(), "SELECT pg_advisory_xact_lock($1)", l.turn)
	require.NoError(t, err)
	type answer struct {
		store.Grant
		error
	}
	answers := make(chan answer, 1)
	go func() {
		g, err := s.Reserve(t.Context(), c)
		answers <- answer{g, err}
	}()
	require.Eventually(t, func() bool {
		var waiting bool
		err := holder.QueryRow(t.Context(), "SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted AND pg_backend_pid() = ANY (pg_blocking_pids(pid)))").Scan(&waiting)
		return err == nil && waiting
	}, 30*time.Second, 2*time.Millisecond)
	_, err = holder.Exec(t.Context(), "SELECT pg_advisory_xact_lock_shared($1::integer, $2::integer)", l.class, l.mark)
	require.NoError(t, err)
	a := <-answers
	require.NoError(t, a.error)
	require.Equal(t, store.InFlight, a.Verdict)
}
