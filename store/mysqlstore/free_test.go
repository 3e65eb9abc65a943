package mysqlstore_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/mysqlstore/mysqltest"
)

// A table without Purge does not grow: one new record in eight deletes sixteen expired ones.
func TestNewRecordsDeleteExpiredOnes(t *testing.T) {
	p := newPlace(t, mysqltest.DSN(t))
	st := p.open(t)
	for i := range 40 {
		reserve(t, st, unleased(fmt.Sprint("old ", i)), store.Acquired)
	}
	p.exec(t, "UPDATE redo_records SET expires_at = 1")
	expired := func() int { return p.count(t, "SELECT COUNT(*) FROM redo_records WHERE expires_at = 1") }
	for i, want := range []int{24, 24, 24, 24, 24, 24, 24, 24, 8, 8} {
		if i%2 == 0 {
			reserve(t, st, claim(fmt.Sprint("new ", i)), store.Acquired)
		} else {
			tx, g, err := st.Begin(t.Context(), unleased(fmt.Sprint("new ", i)))
			require.NoError(t, err)
			require.Equal(t, store.Acquired, g.Verdict)
			require.NoError(t, tx.Commit(t.Context(), store.Outcome{Retention: time.Hour}))
		}
		require.Equal(t, want, expired(), "after new record %d", i)
	}
	require.Equal(t, 10, p.count(t, "SELECT COUNT(*) FROM redo_records WHERE expires_at > 1"))

	st = p.open(t)
	p.exec(t, "CREATE TRIGGER refuse BEFORE INSERT ON redo_records FOR EACH ROW SIGNAL SQLSTATE '45000'")
	_, err := st.Reserve(t.Context(), claim("refused"))
	require.ErrorIs(t, err, store.ErrUnavailable)
	require.Equal(t, 8, expired(), "a refused claim deletes nothing")
}

func TestPurgeCountsNoRecordWhoseDeletionFailed(t *testing.T) {
	p := newPlace(t, mysqltest.DSN(t))
	st := p.open(t)
	c := unleased("k")
	c.Retention = time.Microsecond
	reserve(t, st, c, store.Acquired)
	p.exec(t, "CREATE TRIGGER refuse BEFORE DELETE ON redo_records FOR EACH ROW SIGNAL SQLSTATE '45000'")
	n, err := st.Purge(t.Context(), 10)
	require.ErrorIs(t, err, store.ErrUnavailable)
	require.Zero(t, n)
	p.exec(t, "DROP TRIGGER refuse")
	n, err = st.Purge(t.Context(), 10)
	require.NoError(t, err)
	require.Equal(t, 1, n)
}
