package mysqlstore_test

import (
	"context"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/mysqlstore"
	"github.com/redo-go/redo/store/mysqlstore/mysqltest"
)

// A handler's statement can change the session. The next call would get that session from the pool, and write without a
// commit. Or the session would keep the lock of an ID that is free.
func TestASessionThatTheHandlerHasChangedIsClosed(t *testing.T) {
	for _, text := range []string{
		"SET autocommit = 0", "SET completion_type = 'CHAIN'", "SET completion_type = 'RELEASE'", "USE information_schema",
		"SET timestamp = 1", "SET timestamp = 2000000000",
	} {
		for name, end := range endings {
			t.Run(text+" before "+name, func(t *testing.T) {
				p := newPlace(t, mysqltest.DSN(t))
				p.conns = 1
				st := p.open(t)
				earlier := reserve(t, st, claim("earlier"), store.Acquired).Lease
				tx, _, err := st.Begin(t.Context(), unleased("k"))
				require.NoError(t, err)
				run(t, tx, text)
				ended := end(tx, t.Context())
				require.NotErrorIs(t, ended, store.ErrTxEnded)

				require.NoError(t, st.Complete(t.Context(), earlier, store.Outcome{Retention: time.Hour}))
				const settled = "SELECT COUNT(*) FROM redo_records WHERE state = 2 AND id_key = 'earlier'"
				require.Equal(t, 1, p.count(t, settled), "another session sees it")
				r, err := p.open(t).Find(t.Context(), earlier.ID)
				require.NoError(t, err)
				require.WithinDuration(t, r.ReadAt.Add(time.Hour), r.ExpiresAt, time.Minute)
				if ended != nil || name == "Rollback" {
					other := p.open(t)
					tx, g, err := other.Begin(t.Context(), unleased("k"))
					require.NoError(t, err)
					require.Equal(t, store.Acquired, g.Verdict)
					require.NoError(t, tx.Rollback(t.Context()))
				}
			})
		}
	}
}

// Find and Reserve returned an outcome that its owner could still roll back.
func TestASessionThatReadsUncommittedRowsIsClosed(t *testing.T) {
	for level, kept := range map[string]bool{"READ UNCOMMITTED": false, "READ COMMITTED": true, "SERIALIZABLE": true} {
		for name, end := range endings {
			t.Run(level+" before "+name, func(t *testing.T) {
				p := newPlace(t, mysqltest.DSN(t))
				p.conns = 1
				st := p.open(t)
				id := reserve(t, st, claim("uncommitted"), store.Acquired).Record.ID
				session := func(key, text string) (number int) {
					tx, _, err := st.Begin(t.Context(), unleased(key))
					require.NoError(t, err)
					run(t, tx, text)
					require.NoError(t, tx.Tx().QueryRow("SELECT CONNECTION_ID()").Scan(&number))
					require.NoError(t, end(tx, t.Context()))
					return number
				}
				changed := session("changes", "SET SESSION TRANSACTION ISOLATION LEVEL "+level)
				owner, err := p.admin.BeginTx(t.Context(), nil)
				require.NoError(t, err)
				defer owner.Rollback()
				_, err = owner.Exec("UPDATE redo_records SET state = 2 WHERE scope = 'scope' AND id_key = 'uncommitted'")
				require.NoError(t, err)

				r, err := st.Find(t.Context(), id)
				require.NoError(t, err)
				require.Equal(t, store.StatePending, r.State)
				reserve(t, st, claim("uncommitted"), store.InFlight)
				require.Equal(t, kept, session("next", "SELECT 1") == changed)
			})
		}
	}
}

// Such a statement commits the transaction, and its locks are the session's. In the pool it would make each later call
// fail, and other sessions wait.
func TestASessionWithLocksOfTablesIsClosed(t *testing.T) {
	dsn := mysqltest.Private(t).DSN // the last one stops all writes of its server
	for _, text := range []string{
		"LOCK TABLES effects WRITE", "LOCK TABLES redo_records READ", "FLUSH TABLES WITH READ LOCK",
	} {
		for name, end := range endings {
			t.Run(text+" before "+name, func(t *testing.T) {
				p := newPlace(t, dsn)
				p.conns = 1
				st := p.open(t)
				p.exec(t, "CREATE TABLE effects (id INT)")
				tx, _, err := st.Begin(t.Context(), unleased("k"))
				require.NoError(t, err)
				run(t, tx, text)
				ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
				defer cancel()
				require.ErrorIs(t, end(tx, ctx), store.ErrTxEnded)
				_, err = st.Reserve(ctx, claim("next"))
				require.NoError(t, err)
				_, err = p.open(t).Reserve(ctx, claim("of another session"))
				require.NoError(t, err)
				_, err = p.admin.ExecContext(ctx, "INSERT INTO effects VALUES (1)")
				require.NoError(t, err)
			})
		}
	}
}

// A program may change a session of its pool outside of transactions too. The first call through it may fail.
func TestASessionThatFailsIsClosed(t *testing.T) {
	for _, text := range []string{
		"SET SESSION TRANSACTION READ ONLY", "LOCK TABLES effects READ", "CREATE TEMPORARY TABLE redo_records (id INT)",
		"SET autocommit = 0", "SET completion_type = 'CHAIN'", "SET timestamp = 1",
	} {
		t.Run(text, func(t *testing.T) {
			p := newPlace(t, mysqltest.DSN(t))
			p.conns = 1
			p.exec(t, "CREATE TABLE effects (id INT)")
			db := p.pool(t, p.dsn)
			st, err := mysqlstore.New(db)
			require.NoError(t, err)
			require.NoError(t, st.Migrate(t.Context()))
			_, err = db.Exec(text)
			require.NoError(t, err)
			_, err = st.Reserve(t.Context(), claim("k"))
			require.ErrorIs(t, err, store.ErrUnavailable)
			reserve(t, st, claim("k"), store.Acquired)
		})
	}
}

// Complete, Extend, Release and Forget returned nil through a session that commits nothing, and were lost with it.
func TestAChangeThatIsNotCommittedIsAnError(t *testing.T) {
	for _, text := range []string{"SET autocommit = 0", "SET completion_type = 'CHAIN'"} {
		for name, c := range map[string]struct {
			settled bool
			call    func(st *mysqlstore.Store, l store.Lease) error
		}{
			"Complete": {false, func(st *mysqlstore.Store, l store.Lease) error {
				return st.Complete(context.Background(), l, store.Outcome{})
			}},
			"Extend": {false, func(st *mysqlstore.Store, l store.Lease) error {
				return st.Extend(context.Background(), l, time.Minute, nil)
			}},
			"Release": {false, func(st *mysqlstore.Store, l store.Lease) error {
				return st.Release(context.Background(), l)
			}},
			"Forget": {true, func(st *mysqlstore.Store, l store.Lease) error {
				return st.Forget(context.Background(), l)
			}},
		} {
			t.Run(name+" after "+text, func(t *testing.T) {
				p := newPlace(t, mysqltest.DSN(t))
				p.conns = 1
				l := reserve(t, p.open(t), claim("k"), store.Acquired).Lease
				if c.settled {
					require.NoError(t, p.open(t).Complete(t.Context(), l, store.Outcome{}))
				}
				db := p.pool(t, p.dsn)
				st, err := mysqlstore.New(db)
				require.NoError(t, err)
				_, err = db.Exec(text)
				require.NoError(t, err)
				err = c.call(st, l)
				require.ErrorIs(t, err, mysqlstore.ErrServer)
				require.NotErrorIs(t, err, store.ErrLost)
				require.NoError(t, c.call(st, l), "in another session")
				require.ErrorIs(t, c.call(st, store.Lease{ID: l.ID, Fence: l.Fence + 1}), store.ErrLost)
			})
		}
	}
}

// The owner of a settled record is empty, and its column is not NULL.
func TestASessionThatTakesEmptyValuesForNullIsRefused(t *testing.T) {
	const modes = "EMPTY_STRING_IS_NULL,STRICT_ALL_TABLES"
	p := newPlace(t, mysqltest.DSN(t))
	p.open(t)
	if _, err := p.admin.Exec("SET sql_mode = '" + modes + "'"); err != nil {
		t.Skip("MySQL has no such mode: ", err)
	}
	db := p.pool(t, p.dsn, func(cfg *mysql.Config) { cfg.Params = map[string]string{"sql_mode": "'" + modes + "'"} })
	st, err := mysqlstore.New(db)
	require.NoError(t, err)
	require.ErrorIs(t, st.Check(t.Context()), mysqlstore.ErrServer)
	_, err = st.Reserve(t.Context(), claim("k"))
	require.ErrorIs(t, err, mysqlstore.ErrServer)
}

// MariaDB's sql_mode ORACLE gives some operators another meaning.
func TestOtherModesOfSQLAreTaken(t *testing.T) {
	const modes = "ORACLE,STRICT_ALL_TABLES"
	p := newPlace(t, mysqltest.DSN(t))
	p.open(t)
	if _, err := p.admin.Exec("SET sql_mode = '" + modes + "'"); err != nil {
		t.Skip("MySQL has no such mode: ", err)
	}
	db := p.pool(t, p.dsn, func(cfg *mysql.Config) { cfg.Params = map[string]string{"sql_mode": "'" + modes + "'"} })
	st, err := mysqlstore.New(db)
	require.NoError(t, err)
	require.NoError(t, st.Check(t.Context()))
	l := reserve(t, st, claim("k"), store.Acquired).Lease
	require.NoError(t, st.Release(t.Context(), l))
	l = reserve(t, st, claim("k"), store.Acquired).Lease
	require.NoError(t, st.Complete(t.Context(), l, store.Outcome{}))
	tx, _, err := st.Begin(t.Context(), unleased("tx"))
	require.NoError(t, err)
	require.NoError(t, tx.Commit(t.Context(), store.Outcome{}))
}
