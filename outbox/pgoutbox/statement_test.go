package pgoutbox_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

// A relay claims all the time, over whatever was sent in the last day, and purges in small batches: neither may cost more the
// larger the table is.
func TestNeitherClaimNorPurgeReadsTheWholeTable(t *testing.T) {
	p := newPlace(t)
	q, pool := p.open(t)
	table := pgx.Identifier{p.schema, "redo_outbox"}.Sanitize()
	for _, text := range []string{
		"INSERT INTO %s (id, type, destination, ordering_key, header, payload, state, done_at) " +
			"SELECT 's' || n, '', '', 'k' || n %% 500, '{}', convert_to(repeat('x', 200), 'UTF8'), 2, clock_timestamp() FROM generate_series(1, 20000) AS n",
		"INSERT INTO %s (id, type, destination, ordering_key, header, payload) " +
			"SELECT 'w' || n, '', '', 'k' || n %% 500, '{}', '' FROM generate_series(1, 5000) AS n",
		"ANALYZE %s", // without it the planner believes the table to be small
	} {
		p.exec(t, fmt.Sprintf(text, table))
	}
	claim, purge := q.Statements()
	for name, text := range map[string]string{
		"claim":                    strings.NewReplacer("$1", "16", "$2", "30000000", "$3", "false").Replace(claim),
		"claim with keys held":     strings.NewReplacer("$1", "16", "$2", "30000000", "$3", "true").Replace(claim),
		"purge":                    strings.NewReplacer("$1", "0", "$2", "1000").Replace(purge),
		"purge of all that may be": strings.NewReplacer("$1", "0", "$2", "20000").Replace(purge),
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
