package pgstore_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/pgstore"
)

// What every engine owes is told by storetest.RunTx, over each way to end a transaction. Here is what is Postgres's own.

func requireEnded(t testing.TB, err, known error) {
	t.Helper()
	require.ErrorIs(t, err, store.ErrTxEnded)
	require.ErrorIs(t, err, known)
	require.NotErrorIs(t, err, store.ErrLost)
	if !errors.Is(known, store.ErrUnknown) {
		require.NotErrorIs(t, err, store.ErrUnknown)
	}
}

func TestPgxRefusesToBeEnded(t *testing.T) {
	p, _ := newTxPlace(t)
	st, pool := p.pooled(t)
	begun := func(key string, end func(pgx.Tx, context.Context) error) store.Tx[pgx.Tx] {
		tx, _ := begin(t, st, claim(key), store.Acquired)
		effect(t, tx.Tx(), key)
		require.Error(t, end(tx.Tx(), t.Context()))
		absent(t, st, key)
		return tx
	}
	require.NoError(t, begun("commit, Commit", pgx.Tx.Commit).Commit(t.Context(), store.Outcome{}))
	p.requireEffects(t, "commit, Commit", 1)
	require.NoError(t, begun("commit, Discard", pgx.Tx.Commit).Discard(t.Context(), store.Outcome{Failed: true}))
	p.requireEffects(t, "commit, Discard", 0)
	require.NoError(t, begun("commit, Rollback", pgx.Tx.Commit).Rollback(t.Context()))
	p.requireEffects(t, "commit, Rollback", 0)

	requireEnded(t, begun("rollback, Commit", pgx.Tx.Rollback).Commit(t.Context(), store.Outcome{}), store.ErrInvalid)
	absent(t, st, "rollback, Commit")
	p.requireEffects(t, "rollback, Commit", 0)
	require.NoError(t, begun("rollback, Discard", pgx.Tx.Rollback).Discard(t.Context(), store.Outcome{Failed: true}))
	begin(t, st, claim("rollback, Discard"), store.Failed)
	require.NoError(t, begun("rollback, Rollback", pgx.Tx.Rollback).Rollback(t.Context()))
	require.Zero(t, pool.Stat().AcquiredConns())

	tx, _ := begin(t, st, claim("nested"), store.Acquired)
	nested, err := tx.Tx().Begin(t.Context())
	require.NoError(t, err)
	effect(t, nested, "nested")
	require.NoError(t, nested.Rollback(t.Context()), "a savepoint is its user's")
	require.NoError(t, tx.Commit(t.Context(), store.Outcome{}))
	p.requireEffects(t, "nested", 0)
}

// A session whose user has sent COMMIT or ROLLBACK as a statement may have been used for anything else too.
func TestSessionThatWasBrokenOutOfIsNotUsedAgain(t *testing.T) {
	p, _ := newTxPlace(t)
	p.conns = 1
	t.Run("pgx", func(t *testing.T) {
		st, pool := p.pooled(t)
		notUsedAgain(t, st, byPgxStatements, func(tx pgx.Tx) uint32 { return tx.Conn().PgConn().PID() })
		require.Zero(t, pool.Stat().AcquiredConns())
	})
	t.Run("database/sql", func(t *testing.T) {
		notUsedAgain(t, p.openSQL(t), bySQLStatements, func(tx *sql.Tx) (pid uint32) {
			require.NoError(t, tx.QueryRow("SELECT pg_backend_pid()").Scan(&pid))
			return pid
		})
	})
}

func notUsedAgain[T any](t *testing.T, st store.TxStore[T], by ender[T], pid func(T) uint32) {
	seen := map[uint32]bool{}
	for _, end := range []func(context.Context, T) error{by.commit, by.rollback, by.commit} {
		for _, settle := range []func(store.Tx[T], context.Context) error{
			func(tx store.Tx[T], ctx context.Context) error { return tx.Commit(ctx, store.Outcome{}) },
			func(tx store.Tx[T], ctx context.Context) error { return tx.Discard(ctx, store.Outcome{}) },
			store.Tx[T].Rollback,
		} {
			tx, _ := begin(t, st, claim(fmt.Sprint(t.Name(), len(seen))), store.Acquired)
			require.False(t, seen[pid(tx.Tx())], "it is used again")
			seen[pid(tx.Tx())] = true
			require.NoError(t, end(t.Context(), tx.Tx()))
			_ = settle(tx, t.Context())
		}
	}
}

// The statements after the user's own COMMIT or ROLLBACK may be in another transaction, which looks as if nothing had
// happened.
func TestTransactionThatItsUserReplacedIsFoundOut(t *testing.T) {
	p, _ := newTxPlace(t)
	t.Run("pgx", func(t *testing.T) { replaced(t, p, p.open(t), byPgx) })
	t.Run("database/sql", func(t *testing.T) { replaced(t, p, p.openSQL(t), bySQL) })
}

func replaced[T any](t *testing.T, p place, st store.TxStore[T], by ender[T]) {
	begun := func(key, end string) (store.Tx[T], store.Grant) {
		tx, g := begin(t, st, claim(key), store.Acquired)
		require.NoError(t, by.write(t.Context(), tx.Tx(), "INSERT INTO effects VALUES ($1)", key))
		for _, text := range []string{end, "BEGIN", "INSERT INTO effects VALUES ('" + key + " later')"} {
			require.NoError(t, by.write(t.Context(), tx.Tx(), text))
		}
		return tx, g
	}
	for _, c := range []struct {
		end, way string
		known    error
		verdict  store.Verdict
		effects  int
	}{
		{"COMMIT", "Commit", store.ErrUnknown, store.Complete, 1},
		{"COMMIT", "Discard", store.ErrUnknown, store.Complete, 1},
		{"ROLLBACK", "Commit", nil, store.Acquired, 0},
		{"ROLLBACK", "Discard", store.ErrInvalid, store.Acquired, 0},
	} {
		key := fmt.Sprint(t.Name(), c.end, c.way)
		tx, g := begun(key, c.end)
		settle := tx.Commit
		if c.way == "Discard" {
			settle = tx.Discard
		}
		err := settle(t.Context(), store.Outcome{Failed: c.way == "Discard", Result: []byte("result")})
		if c.known == nil {
			require.ErrorIs(t, err, store.ErrLost)
			require.NotErrorIs(t, err, store.ErrUnknown)
		} else {
			requireEnded(t, err, c.known)
		}
		p.requireEffects(t, key, c.effects)
		p.requireEffects(t, key+" later", 0)
		_, again := begin(t, st, claim(key), c.verdict)
		if c.verdict == store.Complete {
			require.Equal(t, c.way == "Discard", again.Record.OutcomeUnknown())
			require.Equal(t, c.way == "Commit", again.Record.Fence == g.Lease.Fence)
		}
	}
}

// Between the user's commit and the end of the transaction nothing excludes others.
func TestWorkThatItsUserCommittedAndAnotherTookOverIsUnknown(t *testing.T) {
	p, _ := newTxPlace(t)
	st, other := p.openSQL(t), p.open(t)
	for name, settle := range map[string]func(store.Tx[*sql.Tx], context.Context) error{
		"Commit":   func(tx store.Tx[*sql.Tx], ctx context.Context) error { return tx.Commit(ctx, store.Outcome{}) },
		"Rollback": store.Tx[*sql.Tx].Rollback,
	} {
		tx, _ := begin(t, st, claim(name), store.Acquired)
		require.NoError(t, sqlWrite(t.Context(), tx.Tx(), "INSERT INTO effects VALUES ($1)", name))
		require.NoError(t, tx.Tx().Commit())
		l := reserve(t, other, claim(name), store.TakenOver).Lease
		require.NoError(t, other.Release(t.Context(), l), "no trace is left of the record")
		requireEnded(t, settle(tx, t.Context()), store.ErrUnknown)
		absent(t, st, name)
		p.requireEffects(t, name, 1)
	}
}

func TestWorkThatItsUserCommittedAndThatCannotBeRecordedIsUnknown(t *testing.T) {
	p, _ := newTxPlace(t)
	st := p.open(t)
	db := p.db(t)
	down, err := pgstore.NewSQL(db, pgstore.WithSchema(p.schema))
	require.NoError(t, err)
	tx, _ := begin(t, down, claim("l"), store.Acquired)
	require.NoError(t, sqlWrite(t.Context(), tx.Tx(), "INSERT INTO effects VALUES ('l')"))
	require.NoError(t, tx.Tx().Commit())
	require.NoError(t, db.Close())
	requireEnded(t, tx.Commit(t.Context(), store.Outcome{}), store.ErrUnknown)
	begin(t, st, claim("l"), store.TakenOver)
}

// Discard goes back to the store's savepoint, whatever names the user gives to his own.
func TestSavepointsOfTheUser(t *testing.T) {
	p, _ := newTxPlace(t)
	t.Run("pgx", func(t *testing.T) { savepoints(t, p, p.open(t), byPgx) })
	t.Run("database/sql", func(t *testing.T) { savepoints(t, p, p.openSQL(t), bySQL) })
}

func savepoints[T any](t *testing.T, p place, st store.TxStore[T], by ender[T]) {
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
