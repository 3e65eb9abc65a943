package mysqlstore_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/mysqlstore/mysqltest"
	"github.com/redo-go/redo/store/sqltx"
)

// After a failover the clock of the new primary may be behind.
func TestAListIsWholeAlthoughTheClockWasSetBack(t *testing.T) {
	p := newPlace(t, mysqltest.DSN(t))
	st := p.open(t)
	const n = sqltx.PageSize + 30
	for i := range n {
		c := store.Claim{ID: store.ID{Scope: "scope", Key: fmt.Sprint(i)}, Retention: store.Forever}
		_, err := st.Reserve(t.Context(), c)
		require.NoError(t, err)
	}
	p.exec(t, "UPDATE redo_records SET created_at = created_at + 3600000000 WHERE id > ?", n/2)
	listed := 0
	for _, err := range st.Pending(t.Context(), "") {
		require.NoError(t, err)
		listed++
	}
	require.Equal(t, n, listed)
}
