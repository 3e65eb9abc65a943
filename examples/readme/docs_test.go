package readme

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/store/pgstore"
)

var query = regexp.MustCompile("(?s)```sql\n(.*?)```")

// The queries for operators run. Those with "…" are about partitions, which the tests of pgstore make.
func TestEveryQueryOfTheDocsRuns(t *testing.T) {
	databaseURL, conn := database(t)
	st, err := pgstore.Open(t.Context(), databaseURL, pgstore.WithMigrate())
	require.NoError(t, err)
	require.NoError(t, st.Close())
	for _, page := range []string{"stores.md", "operations.md"} {
		queries := queriesOf(t, page)
		for _, q := range queries {
			if !strings.Contains(q, "…") {
				_, err := conn.Exec(t.Context(), q)
				require.NoError(t, err, q)
			}
		}
	}
}

// The two statements of docs/effects.md let the owner with the higher fence write, and no other.
func TestTheFenceOfTheDocsRefusesAnEarlierOwner(t *testing.T) {
	_, conn := database(t)
	_, err := conn.Exec(t.Context(), "CREATE TABLE refunds (id text PRIMARY KEY, state text, fence bigint)")
	require.NoError(t, err)
	update, insert, ok := strings.Cut(queriesOf(t, "effects.md")[0], ";\n")
	require.True(t, ok)
	for _, c := range []struct {
		statement     string
		fence, writes int64
	}{{update, 5, 0}, {insert, 5, 1}, {update, 4, 0}, {insert, 4, 0}, {update, 5, 1}, {insert, 6, 1}, {update, 7, 1}} {
		tag, err := conn.Exec(t.Context(), c.statement, c.fence, "re_1")
		require.NoError(t, err, c.statement)
		require.Equal(t, c.writes, tag.RowsAffected(), "%s with fence %d", c.statement, c.fence)
	}
}

// queriesOf returns the blocks of SQL of a page.
func queriesOf(t *testing.T, page string) []string {
	t.Helper()
	text, err := os.ReadFile("../../docs/" + page)
	require.NoError(t, err)
	var queries []string
	for _, q := range query.FindAllStringSubmatch(string(text), -1) {
		queries = append(queries, q[1])
	}
	require.NotEmpty(t, queries)
	return queries
}

// A row of docs/architecture.md: functions, and then the files that declare them.
var (
	step = regexp.MustCompile(`(?m)^\|[^|]*\|([^|]+)\| (\[[^|]+\)) \|`)
	link = regexp.MustCompile(`\]\(([^)]+)\)`)
	name = regexp.MustCompile("`(\\w+)`")
)

// missingSteps returns each function that the page names beside files that do not declare it, and the number of
// functions that it names.
func missingSteps(page string, read func(file string) string) (missing []string, named int) {
	for _, row := range step.FindAllStringSubmatch(page, -1) {
		var source strings.Builder
		for _, file := range link.FindAllStringSubmatch(row[2], -1) {
			source.WriteString(read(file[1]))
		}
		for _, n := range name.FindAllStringSubmatch(row[1], -1) {
			named++
			declared := regexp.MustCompile(`(?m)^func (\([^)]*\) )?` + n[1] + `[(\[]`)
			if !declared.MatchString(source.String()) {
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
	require.Equal(t, []string{"[client.go](../client.go): run"}, missing)
	require.Equal(t, 3, named)
}
