package pgstore_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/pgstore"
	"github.com/redo-go/redo/store/pgstore/pgtest"
	"github.com/redo-go/redo/store/sqltx"
)

// storetest.RunTx has the rules for every engine. These are rules of Postgres.

func requireEnded(t testing.TB, err error) {
	t.Helper()
	require.ErrorIs(t, err, store.ErrTxEnded)
	require.ErrorIs(t, err, store.ErrUnknown)
}

// endings are the calls that end a transaction.
func endings[T any]() map[string]func(store.Tx[T], context.Context) error {
	return map[string]func(store.Tx[T], context.Context) error{
		"Commit": func(tx store.Tx[T], ctx context.Context) error { return tx.Commit(ctx, store.Outcome{}) },
		"Discard": func(tx store.Tx[T], ctx context.Context) error {
			return tx.Discard(ctx, store.Outcome{Failed: true})
		},
		"Rollback": store.Tx[T].Rollback,
	}
}

func TestUsersSavepointIsItsOwn(t *testing.T) {
	p, _ := newTxPlace(t)
	st := p.open(t)
	tx, _ := begin(t, st, claim("nested"), store.Acquired)
	nested, err := tx.Tx().Begin(t.Context())
	require.NoError(t, err)
	effect(t, nested, "nested")
	require.NoError(t, nested.Rollback(t.Context()))
	kept, err := tx.Tx().Begin(t.Context())
	require.NoError(t, err)
	effect(t, kept, "kept")
	require.NoError(t, kept.Commit(t.Context()))
	require.NoError(t, tx.Commit(t.Context(), store.Outcome{}))
	p.requireEffects(t, "nested", 0)
	p.requireEffects(t, "kept", 1)
}

// A handler may keep its transaction, for example in a goroutine. The connection then serves other callers.
func TestTransactionThatHasEndedUsesItsConnectionNoMore(t *testing.T) {
	p, _ := newTxPlace(t)
	p.conns = 1
	st := p.open(t)
	for name, end := range endings[pgx.Tx]() {
		tx, _ := begin(t, st, claim(name), store.Acquired)
		kept := tx.Tx()
		nested, err := kept.Begin(t.Context())
		require.NoError(t, err)
		require.NoError(t, end(tx, t.Context()))
		for _, late := range []pgx.Tx{kept, nested} {
			require.ErrorIs(t, pgxWrite(t.Context(), late, "INSERT INTO effects VALUES ('late')"), pgx.ErrTxClosed)
			var one int
			require.ErrorIs(t, late.QueryRow(t.Context(), "SELECT 1").Scan(&one), pgx.ErrTxClosed)
			_, err := late.Begin(t.Context())
			require.ErrorIs(t, err, pgx.ErrTxClosed)
		}
	}
	p.requireEffects(t, "late", 0)
}

// A session whose user has sent COMMIT or ROLLBACK may have been used for anything else too.
func TestSessionOfAnEndedTransactionIsNotUsedAgain(t *testing.T) {
	p, _ := newTxPlace(t)
	p.conns = 1
	t.Run("pgx", func(t *testing.T) {
		st, pool := p.pooled(t)
		notUsedAgain(t, st, byPgx, func(tx pgx.Tx) uint32 { return tx.Conn().PgConn().PID() })
		require.Zero(t, pool.Stat().AcquiredConns())
	})
	t.Run("database/sql", func(t *testing.T) {
		notUsedAgain(t, p.openSQL(t), bySQL, func(tx *sqltx.Tx) (pid uint32) {
			require.NoError(t, tx.QueryRow("SELECT pg_backend_pid()").Scan(&pid))
			return pid
		})
	})
}

func notUsedAgain[T any](t *testing.T, st store.TxStore[T], by user[T], pid func(T) uint32) {
	seen := map[uint32]bool{}
	for _, text := range []string{"COMMIT", "ROLLBACK"} {
		for _, end := range endings[T]() {
			tx, _ := begin(t, st, claim(fmt.Sprint(t.Name(), len(seen))), store.Acquired)
			require.False(t, seen[pid(tx.Tx())], "the session is used again")
			seen[pid(tx.Tx())] = true
			require.NoError(t, by.write(t.Context(), tx.Tx(), text))
			requireEnded(t, end(tx, t.Context()))
		}
	}
}

// The statements after the user's own COMMIT or ROLLBACK may be in another transaction, which looks like the first.
func TestTransactionThatItsUserReplacedIsUnknown(t *testing.T) {
	p, _ := newTxPlace(t)
	t.Run("pgx", func(t *testing.T) { replaced(t, p, p.open(t), byPgx) })
	t.Run("database/sql", func(t *testing.T) { replaced(t, p, p.openSQL(t), bySQL) })
}

func replaced[T any](t *testing.T, p place, st store.TxStore[T], by user[T]) {
	for text, effects := range map[string]int{"COMMIT": 1, "ROLLBACK": 0} {
		for name, end := range endings[T]() {
			key := fmt.Sprint(t.Name(), text, name)
			tx, g := begin(t, st, claim(key), store.Acquired)
			require.NoError(t, by.write(t.Context(), tx.Tx(), "INSERT INTO effects VALUES ($1)", key))
			for _, text := range []string{text, "BEGIN", "INSERT INTO effects VALUES ('" + key + " later')"} {
				require.NoError(t, by.write(t.Context(), tx.Tx(), text))
			}
			requireEnded(t, end(tx, t.Context()))
			p.requireEffects(t, key, effects)
			p.requireEffects(t, key+" later", 0)
			_, again := begin(t, st, claim(key), store.Complete)
			require.True(t, again.Record.OutcomeUnknown())
			require.Greater(t, again.Record.Fence, g.Lease.Fence)
		}
	}
}

func TestEndedTransactionWhoseRecordCannotBeSettledIsUnknown(t *testing.T) {
	p, _ := newTxPlace(t)
	st := p.open(t)
	db := p.db(t)
	down, err := pgstore.NewSQL(db, pgstore.WithSchema(p.schema))
	require.NoError(t, err)
	tx, _ := begin(t, down, claim("l"), store.Acquired)
	require.NoError(t, sqlWrite(t.Context(), tx.Tx(), "INSERT INTO effects VALUES ('l')"))
	require.NoError(t, sqlWrite(t.Context(), tx.Tx(), "COMMIT"))
	require.NoError(t, db.Close())
	err = tx.Commit(t.Context(), store.Outcome{})
	requireEnded(t, err)
	require.ErrorIs(t, err, store.ErrUnavailable)
	begin(t, st, claim("l"), store.Acquired)
}

// Discard returns to the store's savepoint, with any names of the user's savepoints.
func TestSavepointsOfTheUser(t *testing.T) {
	p, _ := newTxPlace(t)
	t.Run("pgx", func(t *testing.T) { savepoints(t, p, p.open(t), byPgx) })
	t.Run("database/sql", func(t *testing.T) { savepoints(t, p, p.openSQL(t), bySQL) })
}

func savepoints[T any](t *testing.T, p place, st store.TxStore[T], by user[T]) {
	for i, texts := range [][]string{
		{"SAVEPOINT redo_record"},
		{"SAVEPOINT redo_record", "SAVEPOINT redo_record", "ROLLBACK TO SAVEPOINT redo_record"},
		{"SAVEPOINT redo_record", "RELEASE SAVEPOINT redo_record"},
	} {
		key := fmt.Sprint(t.Name(), i)
		tx, _ := begin(t, st, claim(key), store.Acquired)
		require.NoError(t, by.write(t.Context(), tx.Tx(), "INSERT INTO effects VALUES ($1)", key))
		for _, text := range texts {
			require.NoError(t, by.write(t.Context(), tx.Tx(), text))
		}
		require.NoError(t, by.write(t.Context(), tx.Tx(), "INSERT INTO effects VALUES ($1)", key))
		require.NoError(t, tx.Discard(t.Context(), store.Outcome{Failed: true}))
		p.requireEffects(t, key, 0)
		begin(t, st, claim(key), store.Failed)
	}
}

// A prepared transaction keeps the locks, so that its record can't be settled. Its outcome is unknown all the same.
func TestTransactionThatItsUserPreparedIsUnknown(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a new server")
	}
	srv := pgtest.NewServer(t)
	pgtest.Exec(t, pgtest.Connect(t, srv.URL), "ALTER SYSTEM SET max_prepared_transactions = 2")
	require.NoError(t, srv.Stop())
	require.NoError(t, srv.Restart(t.Context()))
	st := place{url: srv.URL, schema: "public", conns: 2}.open(t)
	conn := pgtest.Connect(t, srv.URL)
	for name, end := range endings[pgx.Tx]() {
		for _, over := range []bool{false, true} {
			key, want := fmt.Sprint(name, over), store.Acquired
			if over {
				reserve(t, st, unleased(key), want)
				want = store.TakenOver
			}
			tx, _ := begin(t, st, unleased(key), want)
			require.NoError(t, pgxWrite(t.Context(), tx.Tx(), "PREPARE TRANSACTION '"+key+"'"))
			requireEnded(t, end(tx, t.Context()))
			begin(t, st, unleased(key), store.InFlight)
			reserve(t, st, unleased(key), store.InFlight)
			pgtest.Exec(t, conn, "COMMIT PREPARED '"+key+"'")
			next, _ := begin(t, st, unleased(key), want)
			require.NoError(t, next.Rollback(t.Context()))
		}
	}
}
