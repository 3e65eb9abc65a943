package mysqlstore_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/store"
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
