package sqlitestore

import (
	"context"
	"database/sql"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/sqltx"
)

func opened(t *testing.T, path string) *Store {
	t.Helper()
	st, err := Open(t.Context(), path, WithMigrate())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, st.Close()) })
	return st
}

func keyed(key string) store.Claim {
	return store.Claim{ID: store.ID{Scope: "scope", Key: key}, Retention: time.Hour}
}

// A power failure may make the file forget fences of an earlier Store, and none of this one's.
func TestOnlyTheFirstFenceOfAStoreIsFarFromTheOneBefore(t *testing.T) {
	for name, fence := range map[string]func(st *Store, c store.Claim) uint64{
		"Reserve": func(st *Store, c store.Claim) uint64 {
			g, err := st.Reserve(t.Context(), c)
			require.NoError(t, err)
			return g.Lease.Fence
		},
		"Begin": func(st *Store, c store.Claim) uint64 {
			tx, g, err := st.Begin(t.Context(), c)
			require.NoError(t, err)
			require.NoError(t, tx.Commit(t.Context(), store.Outcome{}))
			return g.Lease.Fence
		},
		"a Begin that is rolled back": func(st *Store, c store.Claim) uint64 {
			tx, g, err := st.Begin(t.Context(), c)
			require.NoError(t, err)
			require.NoError(t, tx.Rollback(t.Context()))
			return g.Lease.Fence
		},
	} {
		path := filepath.Join(t.TempDir(), "fences.db")
		st, later := opened(t, path), opened(t, path)
		var drawn []uint64
		for _, key := range []string{"a", "b", "c"} {
			drawn = append(drawn, fence(st, keyed(key)))
		}
		for _, key := range []string{"d", "e"} {
			drawn = append(drawn, fence(later, keyed(key)))
		}
		const f = firstStep
		require.Equal(t, []uint64{f, f + 1, f + 2, 2*f + 2, 2*f + 3}, drawn, name)
	}
}

// The next one after a failed commit is the first.
func TestAClaimWhoseCommitFailsDrawsNoFirstFence(t *testing.T) {
	st := opened(t, filepath.Join(t.TempDir(), "first.db"))
	_, err := st.writes.Exec(orphans)
	require.NoError(t, err)
	_, err = st.Reserve(t.Context(), keyed("k"))
	require.ErrorIs(t, err, store.ErrUnknown)
	_, err = st.writes.Exec("DROP TRIGGER orphan")
	require.NoError(t, err)
	g, err := st.Reserve(t.Context(), keyed("k"))
	require.NoError(t, err)
	require.EqualValues(t, firstStep, g.Lease.Fence)
}

func TestADrawThatFailsIsNoFirstDraw(t *testing.T) {
	st := opened(t, filepath.Join(t.TempDir(), "first.db"))
	_, err := st.writes.Exec("CREATE TRIGGER t BEFORE UPDATE ON redo_fence BEGIN SELECT RAISE(ABORT, 'refused'); END")
	require.NoError(t, err)
	_, _, err = st.Begin(t.Context(), keyed("k"))
	require.ErrorContains(t, err, "refused")
	_, err = st.writes.Exec("DROP TRIGGER t")
	require.NoError(t, err)
	fence, err := st.draw(t.Context(), keyed("k").ID)
	require.NoError(t, err)
	require.EqualValues(t, firstStep, fence)
}

// The connection for draws does not sync its commits.
func TestOnlyTheFirstDrawOfAStoreIsSynced(t *testing.T) {
	st := opened(t, filepath.Join(t.TempDir(), "draws.db"))
	require.NoError(t, st.draws.Close())
	_, err := st.draw(t.Context(), keyed("a").ID)
	require.NoError(t, err, "another connection has made it")
	_, err = st.draw(t.Context(), keyed("b").ID)
	require.Error(t, err)
}

// A transaction that is over before it takes its ID has drawn a fence too.
func TestADrawFollowsTheOneBefore(t *testing.T) {
	st := opened(t, filepath.Join(t.TempDir(), "follows.db"))
	first, err := st.draw(t.Context(), keyed("a").ID)
	require.NoError(t, err)
	second, err := st.draw(t.Context(), keyed("b").ID)
	require.NoError(t, err)
	require.Equal(t, first+1, second)
}

// A claim would take an ID that is still announced for one that an open transaction holds.
func TestATransactionThatHasEndedAnnouncesNoID(t *testing.T) {
	for name, end := range map[string]func(tx store.Tx[*sqltx.Tx]) error{
		"Commit":   func(tx store.Tx[*sqltx.Tx]) error { return tx.Commit(t.Context(), store.Outcome{}) },
		"Discard":  func(tx store.Tx[*sqltx.Tx]) error { return tx.Discard(t.Context(), store.Outcome{}) },
		"Rollback": func(tx store.Tx[*sqltx.Tx]) error { return tx.Rollback(t.Context()) },
	} {
		st := opened(t, filepath.Join(t.TempDir(), "ended.db"))
		announced := func() bool {
			now, err := st.read(t.Context(), st.reads, keyed("k").ID)
			require.NoError(t, err)
			return now.began
		}
		tx, _, err := st.Begin(t.Context(), keyed("k"))
		require.NoError(t, err)
		require.True(t, announced(), name)
		require.NoError(t, end(tx), name)
		require.False(t, announced(), name)
	}
}

func TestATransactionWhoseCommitFailsAnnouncesNoID(t *testing.T) {
	st := opened(t, filepath.Join(t.TempDir(), "fails.db"))
	_, err := st.writes.Exec(`PRAGMA foreign_keys = ON; CREATE TABLE parents (id INTEGER PRIMARY KEY);
		CREATE TABLE children (id INTEGER REFERENCES parents DEFERRABLE INITIALLY DEFERRED)`)
	require.NoError(t, err)
	tx, _, err := st.Begin(t.Context(), keyed("k"))
	require.NoError(t, err)
	_, err = tx.Tx().ExecContext(t.Context(), "INSERT INTO children VALUES (1)")
	require.NoError(t, err)
	require.ErrorContains(t, tx.Commit(t.Context(), store.Outcome{}), "FOREIGN KEY")
	now, err := st.read(t.Context(), st.reads, keyed("k").ID)
	require.NoError(t, err)
	require.False(t, now.began)
}

// A draw is of no use if the transaction can't begin.
func TestATransactionThatCanNotBeginAnnouncesNoID(t *testing.T) {
	st := opened(t, filepath.Join(t.TempDir(), "begin.db"))
	_, err := st.draw(t.Context(), keyed("first").ID)
	require.NoError(t, err)
	require.NoError(t, st.writes.Close())
	_, _, err = st.Begin(t.Context(), keyed("k"))
	require.ErrorIs(t, err, store.ErrUnavailable)
	now, err := st.read(t.Context(), st.reads, keyed("k").ID)
	require.NoError(t, err)
	require.False(t, now.began)
}

// Reads of one Store do not wait for each other.
func TestReadsHaveSeveralConnections(t *testing.T) {
	st := opened(t, filepath.Join(t.TempDir(), "reads.db"))
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for range maxReads - 1 {
		tx, err := st.reads.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
		require.NoError(t, err)
		defer func() { require.NoError(t, tx.Rollback()) }()
	}
	_, err := st.Find(ctx, keyed("k").ID)
	require.ErrorIs(t, err, store.ErrNotFound)
}

// The turn is not free before the transaction ends, so that a wait for it would be of no use.
func TestAClaimOfAnIDThatThisStoreHoldsDoesNotWaitForTheTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, err := Open(t.Context(), filepath.Join(t.TempDir(), "held.db"), WithMigrate())
		require.NoError(t, err)
		defer st.Close()
		tx, _, err := st.Begin(context.Background(), keyed("k"))
		require.NoError(t, err)
		start := time.Now()
		g, err := st.Reserve(context.Background(), keyed("k"))
		require.NoError(t, err)
		require.Equal(t, store.InFlight, g.Verdict)
		require.Zero(t, time.Since(start))
		require.NoError(t, tx.Rollback(context.Background()))
	})
}
