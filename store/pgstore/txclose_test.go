package pgstore_test

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/pgstore"
)

// Close leaves open transactions to their owners, with any owner of the pool.
func TestCloseLeavesOpenTransactionsToTheirOwners(t *testing.T) {
	p, _ := newTxPlace(t)
	p.open(t)
	t.Run("of Open", func(t *testing.T) {
		st, err := pgstore.Open(t.Context(), p.url, pgstore.WithSchema(p.schema))
		require.NoError(t, err)
		last := closes(t, p, st, byPgx)
		conn := last.Tx().Conn()
		require.False(t, conn.IsClosed())
		closed := conn.PgConn().CleanupDone()
		require.NoError(t, last.Rollback(t.Context()))
		until(t, "the last one closes the connections", func() bool {
			select {
			case <-closed:
				return true
			default:
				return false
			}
		})
	})
	t.Run("of New", func(t *testing.T) {
		st, pool := p.pooled(t)
		last := closes(t, p, st, byPgx)
		conn := last.Tx().Conn()
		require.NoError(t, last.Rollback(t.Context()))
		require.False(t, conn.IsClosed(), "the pool is its owner's to close")
		require.NoError(t, pool.Ping(t.Context()))
		idle(t, pool)
	})
	t.Run("of NewSQL", func(t *testing.T) {
		db := p.db(t)
		st, err := pgstore.NewSQL(db, pgstore.WithSchema(p.schema))
		require.NoError(t, err)
		last := closes(t, p, st, bySQL)
		require.NoError(t, last.Rollback(t.Context()))
		require.NoError(t, db.PingContext(t.Context()), "the pool is its owner's to close")
		require.Zero(t, db.Stats().InUse)
	})
	t.Run("of NewSQL whose pool is closed before they are over", func(t *testing.T) {
		db := p.db(t)
		st, err := pgstore.NewSQL(db, pgstore.WithSchema(p.schema))
		require.NoError(t, err)
		tx, _ := begin(t, st, claim("pool closed"), store.Acquired)
		require.NoError(t, sqlWrite(t.Context(), tx.Tx(), "INSERT INTO effects VALUES ('pool closed')"))
		require.NoError(t, db.Close())
		require.NoError(t, tx.Commit(t.Context(), store.Outcome{}))
		p.requireEffects(t, "pool closed", 1)
	})
}

// closes closes the store over open transactions, ends all but one of them, and returns that one.
func closes[T any, S txStore[T]](t *testing.T, p place, st S, by user[T]) store.Tx[T] {
	beside := p.open(t)
	key := func(what string) string { return t.Name() + ", " + what }
	begun := func(what string) store.Tx[T] {
		tx, _ := begin(t, st, claim(key(what)), store.Acquired)
		require.NoError(
			t,
			by.write(
				t.Context(),
				tx.Tx(),
				"INSERT INTO "+pgx.Identifier{p.schema, "effects"}.Sanitize()+" VALUES ($1)",
				key(what),
			),
		)
		return tx
	}
	kept, discarded, ended, last := begun("kept"), begun("discarded"), begun("ended"), begun("last")
	require.NoError(t, st.Close())
	_, _, err := st.Begin(t.Context(), claim(key("new")))
	require.ErrorIs(t, err, store.ErrUnavailable)
	for _, what := range []string{"kept", "discarded", "ended", "last"} {
		begin(t, beside, claim(key(what)), store.InFlight)
	}

	require.NoError(t, by.write(t.Context(), kept.Tx(), "SELECT 1"))
	require.NoError(t, kept.Commit(t.Context(), store.Outcome{}))
	begin(t, beside, claim(key("kept")), store.Complete)
	p.requireEffects(t, key("kept"), 1)
	require.NoError(t, discarded.Discard(t.Context(), store.Outcome{Failed: true}))
	begin(t, beside, claim(key("discarded")), store.Failed)
	p.requireEffects(t, key("discarded"), 0)
	require.NoError(t, by.write(t.Context(), ended.Tx(), "COMMIT"))
	requireEnded(t, ended.Rollback(t.Context()))
	begin(t, beside, claim(key("ended")), store.Acquired)
	require.NoError(t, st.Close())
	begin(t, beside, claim(key("last")), store.InFlight)
	return last
}

func TestCloseDoesNotWaitForTheOnlyTransaction(t *testing.T) {
	p := newPlace(t)
	st, err := pgstore.Open(t.Context(), p.url, pgstore.WithSchema(p.schema), pgstore.WithMigrate())
	require.NoError(t, err)
	tx, _ := begin(t, st, claim("k"), store.Acquired)
	require.NoError(t, st.Close())
	require.NoError(t, tx.Commit(t.Context(), store.Outcome{}))
}
