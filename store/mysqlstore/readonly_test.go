package mysqlstore

import (
	"database/sql"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/store/mysqlstore/mysqltest"
)

// The values are those of MySQL, of MariaDB before 12, and of MariaDB 12.
func TestAnyValueOfReadOnlyButOffIsReadOnly(t *testing.T) {
	db, err := sql.Open("mysql", mysqltest.DSN(t))
	require.NoError(t, err)
	defer db.Close()
	for value, want := range map[string]bool{
		"0": false, "1": true, "'OFF'": false, "'ON'": true, "'NO_LOCK'": true, "'NO_LOCK_NO_ADMIN'": true,
	} {
		var got bool
		text := strings.Replace(readOnly, "@@read_only", value, 1)
		require.NoError(t, db.QueryRow("SELECT "+text).Scan(&got), value)
		require.Equal(t, want, got, value)
	}
}
