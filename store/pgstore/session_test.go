package pgstore_test

import (
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/pgstore"
	"github.com/redo-go/redo/store/pgstore/pgtest"
	"github.com/redo-go/redo/store/sqltx"
)

// In the modes exec and simple_protocol the driver reads values in the form that the session writes. A claim would be
// written, and then not be readable.
func TestCheckRefusesASessionWhoseValuesCannotBeRead(t *testing.T) {
	for _, mode := range []pgx.QueryExecMode{
		pgx.QueryExecModeCacheStatement, pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol,
	} {
		asText := mode != pgx.QueryExecModeCacheStatement
		for setting, unreadable := range map[[2]string]bool{
			{"DateStyle", "SQL, DMY"}: asText, {"DateStyle", "German"}: asText, {"bytea_output", "escape"}: asText,
			{"DateStyle", "ISO, DMY"}: false, {"TimeZone", "Asia/Kathmandu"}: false, {"extra_float_digits", "-15"}: false,
		} {
			p := newPlace(t)
			p.open(t) // it makes the table
			st, err := pgstore.New(pgtest.NewPool(t, p.url, 1, inMode(mode), func(cfg *pgxpool.Config) {
				cfg.ConnConfig.RuntimeParams[setting[0]] = setting[1]
			}), pgstore.WithSchema(p.schema))
			require.NoError(t, err)
			err = st.Check(t.Context())
			if !unreadable {
				require.NoError(t, err, "%v %v", mode, setting)
				reserve(t, st, claim("k"), store.Acquired)
				reserve(t, st, claim("k"), store.InFlight)
				continue
			}
			require.ErrorIs(t, err, store.ErrUnavailable, "%v %v", mode, setting)
			require.ErrorContains(t, err, "DateStyle of ISO")
			require.ErrorIs(t, st.Migrate(t.Context()), store.ErrUnavailable)
		}
	}
}

// A migration sees what another process has done, at every isolation level of the session.
func TestMigrationsOfManyProcessesAtEachLevel(t *testing.T) {
	for _, level := range []string{"read committed", "repeatable read", "serializable"} {
		p := newPlace(t)
		errs := make(chan error, 8)
		start := make(chan struct{})
		for range cap(errs) {
			pool := pgtest.NewPool(t, p.url, 1, func(cfg *pgxpool.Config) {
				cfg.ConnConfig.RuntimeParams["default_transaction_isolation"] = level
			})
			require.NoError(t, pool.Ping(t.Context()))
			st, err := pgstore.New(pool, pgstore.WithSchema(p.schema))
			require.NoError(t, err)
			go func() {
				<-start
				errs <- st.Migrate(t.Context())
			}()
		}
		close(start)
		for range cap(errs) {
			require.NoError(t, <-errs, level)
		}
	}
}

// A role or a database may be set to read only, as during a move to another server. Each claim would fail.
func TestCheckRefusesTransactionsThatMayNotWrite(t *testing.T) {
	p := newPlace(t)
	p.open(t) // it makes the table
	st, err := pgstore.New(pgtest.NewPool(t, p.url, 1, func(cfg *pgxpool.Config) {
		cfg.ConnConfig.RuntimeParams["default_transaction_read_only"] = "on"
	}), pgstore.WithSchema(p.schema))
	require.NoError(t, err)
	_, reserved := st.Reserve(t.Context(), claim("k"))
	for _, err := range []error{reserved, st.Check(t.Context()), st.Migrate(t.Context())} {
		require.ErrorIs(t, err, pgstore.ErrStandby)
		require.ErrorIs(t, err, store.ErrUnavailable)
	}
	require.ErrorContains(t, st.Check(t.Context()), "default_transaction_read_only")
}

// A SET outlives a transaction that commits. A crash would lose what later calls write through the session, or they
// would be refused.
func TestSessionThatAHandlersSETHasChangedIsNotUsedAgain(t *testing.T) {
	p, _ := newTxPlace(t)
	p.conns = 1
	t.Run("pgx", func(t *testing.T) {
		notUsedAfterSET(t, p.open(t), byPgx, func(tx pgx.Tx) pgx.Row { return tx.QueryRow(t.Context(), settingsSQL) })
	})
	t.Run("database/sql", func(t *testing.T) {
		notUsedAfterSET(t, p.openSQL(t), bySQL, func(tx *sqltx.Tx) pgx.Row { return tx.QueryRow(settingsSQL) })
	})
}

const settingsSQL = `SELECT current_setting('synchronous_commit'), current_setting('default_transaction_read_only'),
	pg_backend_pid()`

func notUsedAfterSET[T any](t *testing.T, st store.TxStore[T], by user[T], settings func(T) pgx.Row) {
	n := 0
	next := func(text string, end func(tx store.Tx[T]) error) (pid int) {
		n++
		reserve(t, st, claim(fmt.Sprint(t.Name(), n, " reserved")), store.Acquired)
		tx, _ := begin(t, st, claim(fmt.Sprint(t.Name(), n)), store.Acquired)
		var commit, readOnly string
		require.NoError(t, settings(tx.Tx()).Scan(&commit, &readOnly, &pid))
		require.Equal(t, []string{"on", "off"}, []string{commit, readOnly})
		require.NoError(t, by.write(t.Context(), tx.Tx(), text))
		require.NoError(t, end(tx))
		return pid
	}
	commit := func(tx store.Tx[T]) error { return tx.Commit(t.Context(), store.Outcome{}) }
	discard := func(tx store.Tx[T]) error { return tx.Discard(t.Context(), store.Outcome{Failed: true}) }
	rollback := func(tx store.Tx[T]) error { return tx.Rollback(t.Context()) }
	for _, text := range []string{
		"SET synchronous_commit = off", "SET default_transaction_read_only = on",
		"SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY",
	} {
		undone := next(text, discard)
		require.Equal(t, undone, next(text, rollback), "Discard undoes the SET")
		require.Equal(t, undone, next(text, commit), "Rollback undoes the SET")
		require.NotEqual(t, undone, next("SELECT 1", commit), text)
	}
	kept := next("SET TimeZone = 'Asia/Kathmandu'", commit)
	require.Equal(t, kept, next("SELECT 1", commit), "another SET does not close the session")
}

// Each later call of the session failed, for as long as the pool kept it.
func TestSessionInWhichASETMakesACallFailIsNotUsedAgain(t *testing.T) {
	for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol} {
		p := newPlace(t)
		p.conns, p.change = 1, append(p.change, inMode(mode))
		t.Run("pgx, "+mode.String(), func(t *testing.T) { failsOnceAfterSET(t, p, p.open(t), byPgx) })
		t.Run("database/sql, "+mode.String(), func(t *testing.T) { failsOnceAfterSET(t, p, p.openSQL(t), bySQL) })
	}
}

func failsOnceAfterSET[T any](t *testing.T, p place, st store.TxStore[T], by user[T]) {
	for name, call := range map[string]func(c store.Claim) error{
		"Find":    func(c store.Claim) error { _, err := st.Find(t.Context(), c.ID); return err },
		"Reserve": func(c store.Claim) error { _, err := st.Reserve(t.Context(), c); return err },
		"Begin": func(c store.Claim) error {
			tx, _, err := st.Begin(t.Context(), c)
			if err == nil {
				require.NoError(t, tx.Rollback(t.Context()))
			}
			return err
		},
	} {
		for _, text := range []string{"SET DateStyle = German", "SET bytea_output = escape"} {
			c := unleased(fmt.Sprint(t.Name(), name, text))
			reserve(t, st, c, store.Acquired)
			tx, _ := begin(t, st, claim(c.ID.Key+" changes"), store.Acquired)
			require.NoError(t, by.write(t.Context(), tx.Tx(), text))
			require.NoError(t, tx.Commit(t.Context(), store.Outcome{}))
			require.Error(t, call(c), "%s after %s", name, text)
			require.NoError(t, call(c), "%s after %s", name, text)
		}
	}
}

func TestStatementThatAHandlerHasDeallocatedIsReportedAsSuch(t *testing.T) {
	p, _ := newTxPlace(t)
	p.conns = 1
	st := p.open(t)
	reserve(t, st, claim("reserved"), store.Acquired)
	tx, _ := begin(t, st, claim("deallocated"), store.Acquired)
	require.NoError(t, pgxWrite(t.Context(), tx.Tx(), "DEALLOCATE ALL"))
	require.NoError(t, tx.Commit(t.Context(), store.Outcome{}))
	_, _, err := st.Begin(t.Context(), claim("next"))
	require.ErrorIs(t, err, store.ErrUnavailable)
	require.ErrorContains(t, err, "DEALLOCATE")
	begin(t, st, claim("next"), store.Acquired)
}
