package pgoutbox_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

// A relay claims all the time, over whatever was sent in the last day, and purges in small batches: neither may cost
// more the larger the table is.
func TestNeitherClaimNorPurgeReadsTheWholeTable(t *testing.T) {
	p := newPlace(t)
	q, pool := p.open(t)
	table := pgx.Identifier{p.schema, "redo_outbox"}.Sanitize()
	for _, text := range []string{
		"INSERT INTO %s (id, type, destination, ordering_key, header, payload, state, done_at) " +
			"SELECT 's' || n, '', '', 'k' || n %% 500, '{}', convert_to(repeat('x', 200), 'UTF8'), 2, clock_timestamp() FROM generate_series(1, 20000) AS n",
		"INSERT INTO %s (id, type, destination, ordering_key, header, payload) " +
			"SELECT 'w' || n, '', '', 'k' || n %% 500, '{}', '' FROM generate_series(1, 5000) AS n",
		// One key has most of the events, and a line of its own.
		"INSERT INTO %s (id, type, destination, ordering_key, header, payload, state, done_at) " +
			"SELECT 'b' || n, '', '', 'busy', '{}', convert_to(repeat('x', 200), 'UTF8'), 2 + n %% 2, clock_timestamp() FROM generate_series(1, 20000) AS n",
		"INSERT INTO %s (id, type, destination, ordering_key, header, payload) " +
			"SELECT 'l' || n, '', '', 'busy', '{}', '' FROM generate_series(1, 20000) AS n",
		"ANALYZE %s", // without it the planner believes the table to be small
	} {
		p.exec(t, fmt.Sprintf(text, table))
	}
	text := q.Statements()
	start := strings.NewReplacer("$1", "16", "$2", "30000000", "$3", "false", "$4", "NULL", "$5", "0", "$6", "116")
	held := strings.NewReplacer("$1", "16", "$2", "30000000", "$3", "true", "$4", "NULL", "$5", "0", "$6", "116")
	on := strings.NewReplacer("$1", "16", "$2", "30000000", "$3", "true", "$4", "'2020-01-01'", "$5", "9", "$6", "1016")
	for name, text := range map[string]string{
		"claim":                    start.Replace(text.Claim),
		"claim with keys held":     held.Replace(text.Claim),
		"claim from a place on":    on.Replace(text.Claim),
		"park":                     strings.NewReplacer("$1", "NULL", "$2", "0", "$3", "clock_timestamp()", "$4", "9", "$5", "1016").Replace(text.Park),
		"unpark":                   strings.NewReplacer("$1", "20001").Replace(text.Unpark),
		"purge":                    strings.NewReplacer("$1", "0", "$2", "1000").Replace(text.Purge),
		"purge of all that may be": strings.NewReplacer("$1", "0", "$2", "20000").Replace(text.Purge),
	} {
		t.Run(name, func(t *testing.T) {
			rows, err := pool.Query(t.Context(), "EXPLAIN (COSTS OFF) "+text)
			require.NoError(t, err)
			plan, err := pgx.CollectRows(rows, pgx.RowTo[string])
			require.NoError(t, err)
			require.NotContains(t, strings.Join(plan, "\n"), "Seq Scan on redo_outbox")
		})
	}
}
