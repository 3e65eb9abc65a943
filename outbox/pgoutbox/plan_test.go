package pgoutbox_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/outbox"
	"github.com/redo-go/redo/outbox/pgoutbox"
)

type plan struct {
	Node  string  `json:"Node Type"`
	Table string  `json:"Relation Name"`
	Index string  `json:"Index Name"`
	Hit   int     `json:"Shared Hit Blocks"`
	Read  int     `json:"Shared Read Blocks"`
	Rows  float64 `json:"Actual Rows"`
	Loops float64 `json:"Actual Loops"`
	Plans []plan
}

// explain executes a statement, and undoes it.
func (d desk) explain(text string, args ...any) plan {
	d.Helper()
	tx, err := d.pool.Begin(d.Context())
	require.NoError(d, err)
	defer func() { require.NoError(d, tx.Rollback(d.Context())) }()
	_, err = tx.Exec(d.Context(), pgoutbox.PlanSQL)
	require.NoError(d, err)
	return explainIn(d.T, tx, text, args...)
}

// explainIn executes a statement in the transaction.
func explainIn(t *testing.T, tx pgx.Tx, text string, args ...any) plan {
	t.Helper()
	var found []byte
	args = append([]any{pgx.QueryExecModeExec}, args...)
	require.NoError(t, tx.QueryRow(t.Context(), "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) "+text, args...).Scan(&found))
	var plans []struct{ Plan plan }
	require.NoError(t, json.Unmarshal(found, &plans))
	return plans[0].Plan
}

// scans returns the tables that the plan reads from their beginning to their end, although they have rows.
func (p plan) scans() (tables []string) {
	if p.Node == "Seq Scan" && p.Rows*p.Loops > 100 {
		tables = append(tables, p.Table)
	}
	for _, below := range p.Plans {
		tables = append(tables, below.scans()...)
	}
	return tables
}

// While another transaction holds an old snapshot nothing that was deleted can be removed. A claim and a settlement
// read as many pages after five hundred claims as after a hundred, with plans that were made for small tables.
func TestHeldSnapshotMakesNoClaimReadMore(t *testing.T) {
	d := newDesk(t)
	for _, suffix := range []string{"", "_cursor", "_claim", "_late", "_line", "_disabled"} {
		d.exec(t, "VACUUM ANALYZE "+d.named(suffix))
	}
	tx := d.begin(pgx.ReadCommitted)
	tx.exec(pgoutbox.PlanSQL)
	tx.exec("PREPARE log AS " + d.q.Statements().Log)
	tx.exec("PREPARE settle AS " + d.q.Statements().Settle)
	pages := func(execute string) int {
		sub, err := tx.Begin(t.Context())
		require.NoError(t, err)
		defer func() { require.NoError(t, sub.Rollback(t.Context())) }()
		p := explainIn(t, sub, execute)
		return p.Hit + p.Read
	}
	tx.exec("PREPARE few AS " + d.q.Statements().Few)
	const few = "EXECUTE few (10, 3600000000, false, 10, '{}', '{}', true)"
	const log = "EXECUTE log (10, 3600000000, false, 10, '{}', '{}', true, 10, false)"
	settle := func(of outbox.Delivery) string {
		return fmt.Sprintf("EXECUTE settle ('{%d}', '{%d}', '{1}', '{0}', '{NULL}')", of.Lease.Seq, of.Lease.Fence)
	}
	pages(few)
	pages(log)
	pages(settle(outbox.Delivery{}))
	other := d.begin(pgx.RepeatableRead)
	other.exec("SELECT count(*) FROM " + d.table())
	read := func(round string) (claim, settlement int) {
		for i := range 100 {
			d.enqueue(outbox.Event{ID: fmt.Sprint(round, i)},
				keyed(fmt.Sprint(round, "-", i), fmt.Sprint(round, "line", i)))
			ds, err := d.q.Claim(t.Context(), outbox.Claim{Max: 10, Lease: time.Hour})
			require.NoError(t, err)
			require.Len(t, ds, 2)
			d.settle(outbox.Sent, ds...)
		}
		d.enqueue(outbox.Event{ID: round})
		claim = pages(log) + pages(few)
		head := d.claim(round)[0]
		settlement = pages(settle(head))
		d.settle(outbox.Sent, head)
		return claim, settlement
	}
	claim, settlement := read("a")
	for _, round := range []string{"b", "c", "d"} {
		read(round)
	}
	claimLater, settlementLater := read("e")
	t.Logf("pages: claim %d and %d, settlement %d and %d", claim, claimLater, settlement, settlementLater)
	const deeper = 10 // the indexes may have grown by a level
	require.LessOrEqual(t, claimLater, claim+deeper)
	require.LessOrEqual(t, settlementLater, settlement+deeper)
}

// The planner may have seen empty tables, and believes it until the next ANALYZE.
func TestNoStatementReadsAWholeTable(t *testing.T) {
	for _, when := range []string{"before the events", "after the events"} {
		t.Run("analyzed "+when, func(t *testing.T) {
			d := newDesk(t)
			analyze := func() {
				for _, suffix := range []string{"", "_cursor", "_claim", "_late", "_line", "_disabled"} {
					d.exec(t, "VACUUM ANALYZE "+d.named(suffix))
				}
			}
			if when == "before the events" {
				analyze()
			}
			d.fill(t, 60_000, 0)
			d.exec(t, "UPDATE "+d.named("_cursor")+" SET head = 40000")
			for _, text := range []string{
				"INSERT INTO %[1]s (seq, destination, due_at) SELECT seq, 'd' || seq %% 50, clock_timestamp() " +
					"FROM %[3]s WHERE seq <= 20000",
				"INSERT INTO %[1]s (seq, destination, ordering_key, due_at) SELECT seq, '', 'k' || seq %% 5000, " +
					"clock_timestamp() FROM %[3]s WHERE seq BETWEEN 20001 AND 40000",
				"INSERT INTO %[2]s (destination, ordering_key, queued, due_at) SELECT '', 'k' || n, true, " +
					"clock_timestamp() FROM generate_series(0, 4999) AS n",
			} {
				d.exec(t, fmt.Sprintf(text, d.named("_late"), d.named("_line"), d.table()))
			}
			if when == "after the events" {
				analyze()
			}
			ds, err := d.q.Claim(t.Context(), outbox.Claim{Max: 200, Lease: time.Hour})
			require.NoError(t, err)
			require.Len(t, ds, 200)
			text := d.q.Statements()
			none, most := []string{}, int64(100)
			keys := []string{"k1", "k2", "k3"}
			ended := [][]any{{[]int64{}, []int64{}, []int16{}, []int64{}, []*string{}}}[0]
			for i, d := range ds {
				r := int16(1 + i%4)
				ended[0] = append(ended[0].([]int64), int64(d.Lease.Seq))
				ended[1] = append(ended[1].([]int64), int64(d.Lease.Fence))
				ended[2] = append(ended[2].([]int16), r)
				ended[3] = append(ended[3].([]int64), 0)
				ended[4] = append(ended[4].([]*string), nil)
			}
			for name, p := range map[string]plan{
				"few":        d.explain(text.Few, most, most, false, most, none, []int64{}, false),
				"log":        d.explain(text.Log, most, most, false, most, none, []int64{}, false, most, false),
				"late":       d.explain(text.Late, most, most, most, none, []int64{}),
				"readyLines": d.explain(text.ReadyLines, most, false, most, none, []int64{}),
				"lines": d.explain(text.Lines, most, most, true, most, none, []int64{}, []string{"", "", ""},
					keys),
				"settle": d.explain(text.Settle, ended...),
				"extend": d.explain(text.Extend, ended[0], ended[1], most),
				"purge":  d.explain(text.Purge, int64(0), int64(0), most),
			} {
				found := strings.Join(p.scans(), " ")
				require.NotContains(t, found, "redo_outbox", name)
			}
		})
	}
}

// The planner evaluates stable functions to estimate rows. A transaction that got its number there would read the log
// with a later snapshot. Rows of other transactions with numbers in between would be skipped.
func TestPlanningGivesNoTransactionNumber(t *testing.T) {
	d := newDesk(t)
	tx := d.begin(pgx.ReadCommitted)
	numbered := func() (yes bool) {
		require.NoError(t, tx.QueryRow(t.Context(), "SELECT pg_current_xact_id_if_assigned() IS NOT NULL").Scan(&yes))
		return yes
	}
	for _, claim := range []struct {
		text string
		args []any
	}{{d.q.Statements().Log, logArgs(2)}, {d.q.Statements().Few, fewArgs(2)}} {
		args := append([]any{pgx.QueryExecModeExec}, claim.args...)
		tx.exec("EXPLAIN "+claim.text, args...)
		require.False(t, numbered())
		tx.exec(claim.text, args...)
		require.False(t, numbered(), "there is nothing to claim")
	}
	d.enqueue(outbox.Event{ID: "e"})
	tx.exec(d.q.Statements().Few, append([]any{pgx.QueryExecModeExec}, fewArgs(2)...)...)
	require.True(t, numbered())
}

// A row with an earlier place than the number of its transaction could be skipped. A program that inserts rows by itself
// gets the same order.
func TestTransactionHasItsNumberBeforeTheRowHasItsPlace(t *testing.T) {
	d := newDesk(t)
	sent, event := d.q.Statements(), []any{"e", "", "t", "", "{}", []byte{}}
	inserted := "INSERT INTO " + d.table() + " (payload, header, type, destination, id) " +
		"VALUES ($6, $5::jsonb, $3, $2, $1 || $4)"
	for _, insert := range []struct {
		text string
		args []any
	}{
		{sent.Enqueue, event}, {inserted, event},
		{sent.Batch, []any{
			false, []string{"e"}, []string{""}, []string{"t"}, []string{""}, []string{"{}"}, [][]byte{{}},
		}},
		{sent.BatchJSON, []any{
			false, `[{"ID":"e","Destination":"","Type":"t","OrderingKey":"","Header":{},"Payload":""}]`,
		}},
	} {
		rows, err := d.pool.Query(t.Context(), "EXPLAIN (VERBOSE, COSTS OFF) "+insert.text,
			append([]any{pgx.QueryExecModeExec}, insert.args...)...)
		require.NoError(t, err)
		lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
		require.NoError(t, err)
		i := slices.IndexFunc(lines, func(line string) bool { return strings.Contains(line, "nextval") })
		require.Positive(t, i, lines)
		number := strings.Index(lines[i], "pg_current_xact_id") // of the same node
		require.Positive(t, number, lines[i])
		require.Greater(t, strings.Index(lines[i], "nextval"), number, lines[i])
	}
}
