package mysqlstore_test

import (
	"testing"

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

				require.NoError(t, st.Complete(t.Context(), earlier, store.Outcome{}))
				const settled = "SELECT COUNT(*) FROM redo_records WHERE state = 2 AND id_key = 'earlier'"
				require.Equal(t, 1, p.count(t, settled), "another session sees it")
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
