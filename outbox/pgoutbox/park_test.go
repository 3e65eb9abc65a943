package pgoutbox_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/outbox"
)

// The ways in which a parking and a settlement can overlap. After each of them the line goes on.

// The settlement has looked before the line was there, and is through after it was parked.
func TestEventParkedDuringASettlementIsNotStranded(t *testing.T) {
	for _, result := range []outbox.Result{outbox.Sent, outbox.Dead} {
		for _, level := range []string{"read committed", "repeatable read", "serializable"} {
			t.Run(result.String()+" by "+level, func(t *testing.T) {
				l := newLines(t)
				l.isolate(level)
				l.line(t, "a", 1)
				head := l.claim("a1")[0]
				hold := l.begin()
				hold.exec("SELECT FROM " + l.table + " WHERE id = 'a1' FOR SHARE") // as a parking does
				settled := l.settleBeside(head, result)
				l.behind(300)
				l.claim()
				require.Len(t, l.parked(), 300, "on account of one whose settlement has begun, and can't end before")
				hold.commit()
				require.NoError(t, <-settled)
				l.claim("behind1")
			})
		}
	}
}

// The settlement waits for the parking, and sees it.
func TestSettlementComesAfterTheParkingThatItWaitsFor(t *testing.T) {
	l := newLines(t)
	l.line(t, "a", 1)
	head := l.claim("a1")[0]
	l.behind(300)
	parking := l.begin()
	parking.exec(l.parkAll())
	settled := l.settleBeside(head, outbox.Sent)
	parking.commit()
	require.NoError(t, <-settled)
	require.Len(t, l.parked(), 299)
	l.claim("behind1")
}

// The parking finds that the event is being settled, and leaves the one behind it alone: nobody would unpark it.
func TestNoEventIsParkedOnAccountOfOneThatIsBeingSettled(t *testing.T) {
	l := newLines(t)
	l.line(t, "a", 1)
	head := l.claim("a1")[0]
	settling := l.begin()
	text := l.q.Statements()
	settling.exec(text.Sent, int64(head.Lease.Seq), int64(head.Lease.Fence))
	settling.exec(text.Unpark, int64(head.Lease.Seq))
	l.behind(300)
	l.claim() // waits for nobody
	require.NotContains(t, l.parked(), "behind1")
	settling.commit()
	l.claim("behind1")
}

// The parking has looked before the event was settled, and comes to it after.
func TestParkingLooksAgainAtTheEventThatItParksBehind(t *testing.T) {
	l := newLines(t)
	l.line(t, "a", 1)
	head := l.claim("a1")[0]
	l.behind(300)
	gate := l.begin()
	gate.exec("SELECT pg_advisory_xact_lock(7354021)")
	parked := make(chan error, 1)
	parking, gated := l.begin(), strings.Replace(
		l.parkAll(),
		"WITH ",
		"WITH gate AS MATERIALIZED (SELECT FROM pg_advisory_xact_lock(7354021)), ",
		1,
	)
	gated = strings.Replace(
		gated,
		"FROM "+l.table+"\n\tWHERE state = 1 AND attempts = 0 AND ordering_key",
		"FROM gate CROSS JOIN "+l.table+"\n\tWHERE state = 1 AND attempts = 0 AND ordering_key",
		1,
	)
	require.Contains(t, gated, "FROM gate")
	go func() { _, err := parking.Exec(context.Background(), gated); parked <- err }()
	l.blocked(parking)
	l.settle(head, outbox.Sent)
	gate.commit()
	require.NoError(t, <-parked)
	parking.commit()
	require.NotContains(t, l.parked(), "behind1")
	l.claim("behind1")
}

// An event that is committed late takes its place before those that are parked, and they wait for it too.
func TestLateCommitGoesBeforeTheParked(t *testing.T) {
	l := newLines(t)
	l.line(t, "a", 1)
	head := l.claim("a1")[0]
	late := l.begin()
	_, err := l.q.Enqueue(t.Context(), late.Tx, keyed("late", "a"))
	require.NoError(t, err)
	l.behind(300)
	l.claim()
	require.Len(t, l.parked(), 300)
	l.settle(head, outbox.Sent)
	behind := l.claim("behind1")[0]
	late.commit()
	l.claim()
	l.settle(behind, outbox.Sent)
	next := l.claim("late")[0]
	l.settle(next, outbox.Sent)
	l.claim("behind2")
}

// behind adds n events to the line of "a".
func (l lines) behind(n int) {
	l.Helper()
	l.line(l.T, "behind", n)
	l.exec(l.T, "UPDATE "+l.table+" SET ordering_key = 'a' WHERE ordering_key = 'behind'")
}

// parkAll is a parking of all that is due.
func (l lines) parkAll() string {
	return strings.NewReplacer("$1", "NULL", "$2", "0", "$3", "clock_timestamp()", "$4", "0", "$5", "1000").
		Replace(l.q.Statements().Park)
}

// isolate makes the queue's transactions have another isolation where they say nothing.
func (l *lines) isolate(level string) {
	l.Helper()
	l.change = func(c *pgxpool.Config) { c.ConnConfig.RuntimeParams["default_transaction_isolation"] = level }
	l.q, l.pool = l.open(l.T)
}

// An open transaction, on a connection of its own.
type open struct {
	pgx.Tx
	t *testing.T
}

func (l lines) begin() open {
	l.Helper()
	conn, err := pgx.Connect(l.Context(), l.url)
	require.NoError(l, err)
	l.Cleanup(func() { _ = conn.Close(context.Background()) })
	tx, err := conn.BeginTx(l.Context(), pgx.TxOptions{IsoLevel: pgx.ReadCommitted})
	require.NoError(l, err)
	return open{tx, l.T}
}

func (o open) exec(text string, args ...any) {
	o.t.Helper()
	_, err := o.Exec(o.t.Context(), text, args...)
	require.NoError(o.t, err)
}

func (o open) commit() {
	o.t.Helper()
	require.NoError(o.t, o.Commit(o.t.Context()))
}

// settleBeside begins to settle, and returns once that waits for a lock.
func (l lines) settleBeside(d outbox.Delivery, r outbox.Result) <-chan error {
	l.Helper()
	settled := make(chan error, 1)
	go func() { settled <- l.q.Settle(context.Background(), d.Lease, outbox.Outcome{Result: r}) }()
	l.until("a settlement waits for a lock", "query LIKE 'UPDATE%' AND position($1 in query) > 0", l.table)
	return settled
}

// blocked returns once the transaction waits for a lock.
func (l lines) blocked(o open) {
	l.Helper()
	l.until("a parking waits for a lock", "pid = $1", int64(o.Conn().PgConn().PID()))
}

// until waits for a session that waits for a lock.
func (l lines) until(what, condition string, args ...any) {
	l.Helper()
	require.Eventually(l, func() bool {
		var n int
		err := l.pool.QueryRow(context.Background(), "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND "+condition, args...).
			Scan(&n)
		return err == nil && n > 0
	}, time.Minute, 2*time.Millisecond, what)
}
