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

// A row of docs/architecture.md: functions, and then the file that declares them.
var (
	step = regexp.MustCompile(`(?m)^\|[^|]*\|([^|]+)\| \[[^\]]+\]\(([^)]+)\) \|`)
	name = regexp.MustCompile("`(\\w+)`")
)

// missingSteps returns each function that the page names beside a file that does not declare it, and the number of
// functions that it names.
func missingSteps(page string, read func(file string) string) (missing []string, named int) {
	for _, row := range step.FindAllStringSubmatch(page, -1) {
		for _, n := range name.FindAllStringSubmatch(row[1], -1) {
			named++
			declared := regexp.MustCompile(`(?m)^func (\([^)]*\) )?` + n[1] + `[(\[]`)
			if !declared.MatchString(read(row[2])) {
				missing = append(missing, row[2]+": "+n[1])
			}
		}
	}
	return missing, named
}

func TestEachStepOfTheArchitectureIsInItsFile(t *testing.T) {
	page, err := os.ReadFile("../../docs/architecture.md")
	require.NoError(t, err)
	missing, named := missingSteps(string(page), func(file string) string {
		source, err := os.ReadFile("../../docs/" + file)
		require.NoError(t, err)
		return string(source)
	})
	require.Empty(t, missing)
	require.Greater(t, named, 50)
}

func TestAStepThatMovedIsFound(t *testing.T) {
	page := "| Entry | `Do`, `Call`, `run` | [client.go](../client.go) | text |\n"
	source := "func (c *Client) Do() {\n}\n\nfunc Call[T any]() {\n}\n\n// func run(\nfunc running() {\n}\n"
	missing, named := missingSteps(page, func(string) string { return source })
	require.Equal(t, []string{"../client.go: run"}, missing)
	require.Equal(t, 3, named)
}
