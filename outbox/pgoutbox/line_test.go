package pgoutbox_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/outbox"
	"github.com/redo-go/redo/outbox/pgoutbox"
)

// Lines are a queue's, and a way to look at them.
type lines struct {
	place
	*testing.T
	q     *pgoutbox.Queue
	pool  *pgxpool.Pool
	table string
}

func newLines(t *testing.T) lines {
	p := newPlace(t)
	q, pool := p.open(t)
	return lines{p, t, q, pool, pgx.Identifier{p.schema, "redo_outbox"}.Sanitize()}
}

// line writes n events of one key, named after it, and lets the planner know.
func (p place) line(t testing.TB, key string, n int) {
	t.Helper()
	table := pgx.Identifier{p.schema, "redo_outbox"}.Sanitize()
	p.exec(t, fmt.Sprintf("INSERT INTO %s (id, type, destination, ordering_key, header, payload) "+
		"SELECT '%[2]s' || n, '', '', '%[2]s', '{}', convert_to(repeat('x', 512), 'UTF8') FROM generate_series(1, %[3]d) AS n", table, key, n))
	p.exec(t, "VACUUM ANALYZE "+table)
}

// claim claims up to 16 events, which must be those with the ids.
func (l lines) claim(ids ...string) []outbox.Delivery {
	return l.claimed(outbox.Claim{Max: 16}, ids...)
}

func (l lines) claimed(c outbox.Claim, ids ...string) []outbox.Delivery {
	l.Helper()
	c.Lease = time.Hour
	ds, err := l.q.Claim(l.Context(), c)
	require.NoError(l, err)
	got := []string{}
	for _, d := range ds {
		got = append(got, d.Event.ID)
	}
	require.Equal(l, append([]string{}, ids...), got)
	return ds
}

func (l lines) settle(d outbox.Delivery, r outbox.Result) {
	l.Helper()
	o := outbox.Outcome{Result: r}
	if r == outbox.Waiting {
		o.Wait = time.Hour
	}
	require.NoError(l, l.q.Settle(l.Context(), d.Lease, o))
}

// ids are those of the waiting events of which the condition holds, in their order.
func (l lines) ids(condition string) []string {
	l.Helper()
	rows, err := l.pool.Query(l.Context(), "SELECT id FROM "+l.table+" WHERE state = 1 AND "+condition+" ORDER BY seq")
	require.NoError(l, err)
	ids, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(l, err)
	return ids
}

func (l lines) due() []string { l.Helper(); return l.ids("due_at <= clock_timestamp()") }
func (l lines) parked() []string {
	l.Helper()
	return l.ids("attempts = 0 AND due_at > clock_timestamp()")
}

func TestLongLineIsParkedUntilItsTurnComes(t *testing.T) {
	l := newLines(t)
	l.line(t, "a", 1500)
	head := l.claimed(outbox.Claim{Max: 1}, "a1")[0]
	require.Empty(t, l.parked(), "a claim that has found enough writes nothing else")
	l.line(t, "b", 1)
	b := l.claim("b1")[0]
	require.Empty(t, l.due(), "whoever waits behind another is out of the way")
	require.Len(t, l.parked(), 1499)

	l.settle(b, outbox.Sent)
	l.settle(head, outbox.Released)
	require.Equal(t, []string{"a1"}, l.due(), "an event that waits still makes no room")
	head = l.claim("a1")[0]
	l.settle(head, outbox.Sent)
	require.Equal(t, []string{"a2"}, l.due(), "the next one, and no other")
	second := l.claim("a2")[0]
	l.settle(second, outbox.Dead)
	require.Equal(t, []string{"a3"}, l.due(), "a dead letter makes room too")
	third := l.claim("a3")[0]
	require.NoError(t, l.q.Redrive(t.Context(), "a2"))
	l.settle(third, outbox.Waiting)
	second = l.claim("a2")[0]
	l.settle(second, outbox.Sent)
	require.Empty(t, l.due(), "one that was tried keeps its own time")
	l.exec(t, "UPDATE "+l.table+" SET due_at = clock_timestamp() WHERE id = 'a3'") // which has come
	l.settle(l.claim("a3")[0], outbox.Sent)
	require.Equal(t, []string{"a4"}, l.due())
}

func TestShortLineIsNotParked(t *testing.T) {
	l := newLines(t)
	l.line(t, "a", 1+pgoutbox.Spare/2)
	l.line(t, "b", 1+pgoutbox.Spare/2)
	l.claim("a1", "b1")
	l.claim()
	require.Empty(t, l.parked())
}

// Two hours at most, where a line lost its first event to what the queue does not know of.
func TestParkedEventComesByItselfInTheEnd(t *testing.T) {
	l := newLines(t)
	l.line(t, "a", 300)
	head := l.claimed(outbox.Claim{Max: 1}, "a1")[0]
	l.claim()
	require.Len(
		t,
		l.ids("due_at BETWEEN clock_timestamp() + interval '50 minutes' AND clock_timestamp() + interval '2 hours'"),
		300,
		"those behind, and the lease of an hour",
	)
	l.exec(t, "DELETE FROM "+l.table+" WHERE id = 'a1'")
	require.Error(t, l.q.Settle(t.Context(), head.Lease, outbox.Outcome{Result: outbox.Sent}))
	l.claim()
	l.exec(t, "UPDATE "+l.table+" SET due_at = due_at - interval '2 hours'") // that have passed
	l.claim("a2")
}

func TestOnlyThoseBehindAWaitingEventAreParked(t *testing.T) {
	// Each key has its events; none of them may be parked.
	for name, events := range map[string]string{
		"first":                     "(1, 1, false, 0)",
		"behind a dead letter":      "(1, 3, false, 1), (2, 1, false, 0)",
		"before one under way":      "(1, 1, false, 0), (2, 1, true, 1)",
		"behind another, and tried": "(1, 1, false, 1), (2, 1, false, 1)",
	} {
		t.Run(name, func(t *testing.T) {
			l := newLines(t)
			l.exec(
				t,
				fmt.Sprintf(
					"INSERT INTO %s (id, type, destination, ordering_key, header, payload, state, leased, attempts, due_at, done_at) "+
						"SELECT k || '-' || place, '', '', 'k' || k, '{}', '', state, leased, attempts, "+
						"clock_timestamp() + CASE WHEN leased THEN 1 ELSE -1 END * interval '1 hour', CASE WHEN state = 3 THEN clock_timestamp() END "+
						"FROM generate_series(1, 1300) AS k, (VALUES %s) AS e (place, state, leased, attempts) ORDER BY k, place",
					l.table,
					events,
				),
			)
			l.line(t, "behind", 300)
			l.line(t, "free", 1)
			last := ""
			for range 200 { // at most 16 at a time, where they may be claimed
				ds, err := l.q.Claim(t.Context(), outbox.Claim{Max: 16, HoldKeys: true, Lease: time.Hour})
				require.NoError(t, err)
				if len(ds) == 0 {
					break
				}
				last = ds[len(ds)-1].Event.ID
			}
			require.Equal(t, "free1", last, "a claim goes on behind those that it can't take")
			require.Empty(t, l.ids("ordering_key LIKE 'k%' AND attempts = 0 AND due_at > clock_timestamp()"))
			require.Len(t, l.parked(), 299)
		})
	}
}

func TestClaimParksSoManyAtMost(t *testing.T) {
	l := newLines(t)
	l.line(t, "a", pgoutbox.MostParked+3*pgoutbox.Stride)
	l.line(t, "b", 1)
	l.claimed(outbox.Claim{Max: 1}, "a1")
	l.claim() // and comes back in time
	parked := len(l.parked())
	require.GreaterOrEqual(t, parked, pgoutbox.MostParked)
	require.Less(t, parked, pgoutbox.MostParked+2*pgoutbox.Stride)
	l.claim("b1")
}

// What a claim looks at must not grow with the line of a busy key.
func TestClaimLooksAtAsMuchBesideALongLine(t *testing.T) {
	looked := map[int]float64{}
	for _, n := range []int{500, 10_000} {
		l := newLines(t)
		l.line(t, "a", n)
		first := l.claimed(outbox.Claim{Max: 1}, "a1")[0]
		l.claim()
		l.settle(first, outbox.Sent)
		l.line(t, "b", 1) // and vacuum: dead index entries are no rows, and yet are read
		claim := strings.NewReplacer("$1", "16", "$2", "30000000", "$3", "true", "$4", "NULL", "$5", "0", "$6", "116")
		looked[n] = l.rows(claim.Replace(l.q.Statements().Claim))
		l.claim("a2", "b1")
	}
	require.Equal(t, looked[500], looked[10_000])
	require.Less(t, looked[10_000], 20.0)
}

// One that was not parked yet costs a claim no more than it is allowed to look at.
func TestClaimLooksAtSoMuchBeforeItParks(t *testing.T) {
	l := newLines(t)
	l.line(t, "a", 10_000)
	l.claimed(outbox.Claim{Max: 1}, "a1")
	claim := strings.NewReplacer("$1", "16", "$2", "30000000", "$3", "true", "$4", "NULL", "$5", "0", "$6", "116")
	// The end of the window is sought, each in it is looked at, and so is the one before it.
	require.LessOrEqual(t, l.rows(claim.Replace(l.q.Statements().Claim)), 3*116.0+10)
}

// rows are those that the plan's scans of the table and its indexes read when the statement is made, which is undone.
func (l lines) rows(text string) float64 {
	l.Helper()
	tx, err := l.pool.Begin(l.Context())
	require.NoError(l, err)
	defer func() { require.NoError(l, tx.Rollback(l.Context())) }()
	var answer []byte
	require.NoError(l, tx.QueryRow(l.Context(), "EXPLAIN (ANALYZE, FORMAT JSON) "+text).Scan(&answer))
	var plans []struct{ Plan plan }
	require.NoError(l, json.Unmarshal(answer, &plans))
	return plans[0].Plan.read()
}

type plan struct {
	Index   string  `json:"Index Name"`
	Table   string  `json:"Relation Name"`
	Node    string  `json:"Node Type"`
	Rows    float64 `json:"Actual Rows"`
	Removed float64 `json:"Rows Removed by Filter"`
	Loops   float64 `json:"Actual Loops"`
	Plans   []plan
}

func (p plan) read() (n float64) {
	if strings.HasSuffix(p.Node, "Scan") && (p.Index != "" || p.Table != "") {
		n = (p.Rows + p.Removed) * p.Loops
	}
	for _, below := range p.Plans {
		n += below.read()
	}
	return n
}
