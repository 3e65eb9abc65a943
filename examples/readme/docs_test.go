package readme

import (
	"os"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/store/pgstore"
)

var query = regexp.MustCompile("(?s)```sql\n(.*?)```")

// What docs/stores.md tells operators to ask the database can be asked.
func TestEveryQueryOfTheDocsRuns(t *testing.T) {
	databaseURL, conn := database(t)
	st, err := pgstore.Open(t.Context(), databaseURL, pgstore.WithMigrate())
	require.NoError(t, err)
	require.NoError(t, st.Close())
	docs, err := os.ReadFile("../../docs/stores.md")
	require.NoError(t, err)
	queries := query.FindAllStringSubmatch(string(docs), -1)
	require.NotEmpty(t, queries)
	for _, q := range queries {
		_, err := conn.Exec(t.Context(), q[1])
		require.NoError(t, err, q[1])
	}
}
