package pgoutbox_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/outbox"
	"github.com/redo-go/redo/outbox/pgoutbox"
)

// A desk is a queue with the parts that a test needs to drive it.
type desk struct {
	place
	*testing.T
	q    *pgoutbox.Queue
	pool *pgxpool.Pool
}

func newDesk(t *testing.T) desk {
	p := newPlace(t)
	q, pool := p.open(t)
	return desk{p, t, q, pool}
}

// isolate gives the queue's transactions another default of isolation.
func (d *desk) isolate(level string) {
	d.Helper()
	d.change = func(c *pgxpool.Config) { c.ConnConfig.RuntimeParams["default_transaction_isolation"] = level }
	d.q, d.pool = d.open(d.T)
}

var levels = []string{"read committed", "repeatable read", "serializable"}

func (d desk) enqueue(evs ...outbox.Event) {
	d.Helper()
	require.NoError(d, d.q.Append(d.Context(), evs...))
}

// claim claims up to 16 events, which must be those with the ids.
func (d desk) claim(ids ...string) []outbox.Delivery {
	d.Helper()
	return d.claimed(outbox.Claim{Max: 16}, ids...)
}

func (d desk) claimed(c outbox.Claim, ids ...string) []outbox.Delivery {
	d.Helper()
	c.Lease = time.Hour
	ds, err := d.q.Claim(d.Context(), c)
	require.NoError(d, err)
	got := []string{}
	for _, d := range ds {
		got = append(got, d.Event.ID)
	}
	require.Equal(d, append([]string{}, ids...), got)
	return ds
}

func (d desk) settle(r outbox.Result, ds ...outbox.Delivery) {
	d.Helper()
	lost, err := d.q.Settle(d.Context(), settlements(r, ds...)...)
	require.NoError(d, err)
	require.Empty(d, lost)
}

func settlements(r outbox.Result, ds ...outbox.Delivery) (ended []outbox.Settlement) {
	for _, d := range ds {
		o := outbox.Outcome{Result: r}
		if r == outbox.Waiting {
			o.Wait = time.Hour
		}
		ended = append(ended, outbox.Settlement{Lease: d.Lease, Outcome: o})
	}
	return ended
}

// count returns how many rows a table has for which the condition holds.
func (d desk) count(suffix, condition string) (n int) {
	d.Helper()
	require.NoError(d,
		d.pool.QueryRow(d.Context(), "SELECT count(*) FROM "+d.named(suffix)+" WHERE "+condition).Scan(&n))
	return n
}

// begin opens a transaction on a new connection.
func (d desk) begin(level pgx.TxIsoLevel) open {
	d.Helper()
	conn, err := pgx.Connect(d.Context(), d.url)
	require.NoError(d, err)
	d.Cleanup(func() { _ = conn.Close(context.Background()) })
	tx, err := conn.BeginTx(d.Context(), pgx.TxOptions{IsoLevel: level})
	require.NoError(d, err)
	return open{tx, d.T}
}

type open struct {
	pgx.Tx
	t *testing.T
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

// logArgs are the arguments of the log's statement for a claim of n events that passes the events that it may not
// claim.
func logArgs(n int64) []any {
	return []any{int64(1000), int64(3_600_000_000), false, n, []string{}, []int64{}, false, n, true}
}

// fewArgs are the arguments of the small statement for a claim of n events.
func fewArgs(n int64) []any {
	return []any{n, int64(3_600_000_000), false, n, []string{}, []int64{}, true}
}

// settleArgs are the arguments of the settlement of an event that was sent.
func settleArgs(d outbox.Delivery) []any {
	return []any{[]int64{int64(d.Lease.Seq)}, []int64{int64(d.Lease.Fence)}, []int16{1}, []int64{0}, []*string{nil}}
}

// waits returns once another session waits for the transaction.
func (d desk) waits(on open) {
	d.Helper()
	require.Eventually(d, func() bool {
		var found int
		err := d.pool.QueryRow(context.Background(),
			"SELECT count(*) FROM pg_stat_activity WHERE $1 = ANY (pg_blocking_pids(pid))",
			on.Conn().PgConn().PID()).Scan(&found)
		return err == nil && found > 0
	}, time.Minute, 2*time.Millisecond)
}

// refuse makes Postgres refuse an operation on the rows of a table, by a trigger with the name refuse.
func (d desk) refuse(operation, suffix string) {
	d.Helper()
	d.exec(d.T, "CREATE FUNCTION "+d.named("_refuse")+"() RETURNS trigger LANGUAGE plpgsql AS "+
		"'BEGIN RAISE EXCEPTION ''refused''; END'")
	d.exec(d.T, "CREATE TRIGGER refuse BEFORE "+operation+" ON "+d.named(suffix)+
		" FOR EACH ROW EXECUTE FUNCTION "+d.named("_refuse")+"()")
}

func TestLineWithoutLateEventsLeavesNothingBehind(t *testing.T) {
	d := newDesk(t)
	d.enqueue(keyed("a1", "a"), keyed("a2", "a"), keyed("b1", "b"), outbox.Event{ID: "free"})
	ds := d.claim("a1", "a2", "b1", "free")
	d.enqueue(keyed("a3", "a"))
	require.Equal(t, 3, d.count("_claim", "true"), "one for each line, and one for the others")
	d.settle(outbox.Sent, ds...)
	for _, suffix := range []string{"_claim", "_line", "_late"} {
		require.Zero(t, d.count(suffix, "true"), suffix)
	}
	d.claim("a3")
}

// The events behind a dead letter are not touched, however many they are.
func TestHeldLineIsParkedAndNotItsEvents(t *testing.T) {
	d := newDesk(t)
	d.fill(t, 3000, 1)
	hold := outbox.Claim{Max: 1, HoldKeys: true}
	d.settle(outbox.Dead, d.claimed(hold, "e1")...)
	for range 3 {
		d.claimed(outbox.Claim{Max: 16, HoldKeys: true})
	}
	require.Equal(t, 1, d.count("_late", "true"), "the dead letter")
	require.Equal(t, 1, d.count("_line", "true"))
	d.enqueue(outbox.Event{ID: "other"})
	d.claimed(hold, "other")
	require.Positive(t, d.count("_late", "state = 1"), "those before it were in its way")
	d.claimed(hold)
	require.Zero(t, d.count("_line", "NOT held AND due_at <= clock_timestamp()"), "no claim examines the line again")
	require.NoError(t, d.q.Redrive(t.Context(), "e1", ""))
	d.settle(outbox.Sent, d.claimed(hold, "e1")...)
	d.claimed(outbox.Claim{Max: 3, HoldKeys: true}, "e2", "e3", "e4")
}

// An event that kills its relay would otherwise kill it again with all the others of its claim.
func TestEventsOfADeadRelayAreCounted(t *testing.T) {
	d := newDesk(t)
	d.enqueue(keyed("a1", "a"), keyed("a2", "a"), outbox.Event{ID: "free"}, outbox.Event{ID: "sent"})
	ds := d.claim("a1", "a2", "free", "sent")
	d.settle(outbox.Sent, ds[3])
	d.exec(t, "UPDATE "+d.named("_claim")+" SET lease_end = clock_timestamp() - interval '1 second'")
	for _, again := range d.claim("a1", "a2", "free") {
		require.Equal(t, 2, again.Attempt)
	}
	lost, err := d.q.Settle(t.Context(), settlements(outbox.Sent, ds[:3]...)...)
	require.NoError(t, err)
	require.Len(t, lost, 3)
}

func TestClaimIsDividedIfSomeOfItsLeasesAreExtended(t *testing.T) {
	d := newDesk(t)
	d.enqueue(outbox.Event{ID: "1"}, outbox.Event{ID: "2"}, outbox.Event{ID: "3"})
	ds := d.claim("1", "2", "3")
	lost, err := d.q.Extend(t.Context(), 2*time.Hour, ds[1].Lease)
	require.NoError(t, err)
	require.Empty(t, lost)
	require.Equal(t, 2, d.count("_claim", "true"))
	d.exec(t, "UPDATE "+d.named("_claim")+" SET lease_end = clock_timestamp() - interval '1 second' "+
		"WHERE lease_end < clock_timestamp() + interval '90 minutes'")
	d.claim("1", "3")
	d.settle(outbox.Sent, ds[1])
}

func TestLeaseThatTheCursorHasPassedIsFound(t *testing.T) {
	d := newDesk(t)
	d.enqueue(outbox.Event{ID: "k"})
	d.claim("k")
	d.exec(t, "UPDATE "+d.named("_claim")+" SET lease_end = clock_timestamp() - interval '1 second'")
	d.exec(t, "UPDATE "+d.named("_cursor")+" SET swept = clock_timestamp() + interval '1 hour'")
	d.refuse("DELETE", "_claim")
	d.q, d.pool = d.open(t) // a process looks for all expired leases with its first claim
	_, err := d.q.Claim(t.Context(), outbox.Claim{Max: 16, Lease: time.Hour})
	require.ErrorContains(t, err, "refused")
	d.exec(t, "DROP TRIGGER refuse ON "+d.named("_claim"))
	d.q, d.pool = d.open(t)
	d.claim("k")
}

// A relay must not take events that it can't claim for none. Each of these claims fails in another statement.
func TestAClaimThatFailsIsAnError(t *testing.T) {
	fresh := func(desk) {}
	late := func(d desk) { d.settle(outbox.Released, d.claim("e")...) }
	expired := func(d desk) {
		d.claim("e")
		d.exec(t, "UPDATE "+d.named("_claim")+" SET lease_end = clock_timestamp()")
	}
	for name, c := range map[string]struct {
		event             outbox.Event
		make              func(desk)
		operation, suffix string
	}{
		"of new events":     {outbox.Event{ID: "e"}, fresh, "INSERT", "_claim"},
		"of a new line":     {keyed("e", "a"), fresh, "INSERT", "_claim"},
		"of late events":    {outbox.Event{ID: "e"}, late, "UPDATE", "_late"},
		"of a late line":    {keyed("e", "a"), late, "UPDATE", "_late"},
		"of expired leases": {outbox.Event{ID: "e"}, expired, "DELETE", "_claim"},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t)
			d.claim() // looks for all expired leases, which the next one does not
			d.enqueue(c.event)
			c.make(d)
			d.refuse(c.operation, c.suffix)
			_, err := d.q.Claim(t.Context(), outbox.Claim{Max: 16, Lease: time.Hour})
			require.ErrorContains(t, err, "refused")
			d.exec(t, "DROP TRIGGER refuse ON "+d.named(c.suffix))
			d.claim("e")
		})
	}
}

// A relay tries a failed settlement again. It must not take it for a lost lease.
func TestALeaseIsNotLostByAFailedCall(t *testing.T) {
	d := newDesk(t)
	d.enqueue(outbox.Event{ID: "e"})
	ds := d.claim("e")
	d.refuse("DELETE OR UPDATE", "_claim")
	lost, err := d.q.Settle(t.Context(), settlements(outbox.Sent, ds...)...)
	require.ErrorContains(t, err, "refused")
	require.Empty(t, lost)
	lost, err = d.q.Extend(t.Context(), time.Hour, ds[0].Lease)
	require.ErrorContains(t, err, "refused")
	require.Empty(t, lost)
	d.exec(t, "DROP TRIGGER refuse ON "+d.named("_claim"))
	d.settle(outbox.Sent, ds...)
}

func TestUnreadableEventBecomesADeadLetter(t *testing.T) {
	d := newDesk(t)
	d.enqueue(outbox.Event{ID: "bad"}, outbox.Event{ID: "good"})
	d.exec(t, fmt.Sprintf("UPDATE %s SET header = '[1]' WHERE id = 'bad'", d.table()))
	d.claim("good")
	st, err := d.q.Stats(t.Context())
	require.NoError(t, err)
	require.Equal(t, 1, st.Dead)
	for _, err := range d.q.Events(t.Context(), outbox.Selection{State: outbox.StateDead}) {
		require.ErrorContains(t, err, `event "bad"`)
	}
}

// The first settlement of a lease counts, and the other one has lost it.
func TestALeaseIsSettledOnce(t *testing.T) {
	d := newDesk(t)
	d.enqueue(outbox.Event{ID: "a"}, outbox.Event{ID: "b"})
	ds := d.claim("a", "b")
	ended := slices.Concat(settlements(outbox.Sent, ds[0]), settlements(outbox.Dead, ds[0]),
		settlements(outbox.Sent, ds[1]))
	lost, err := d.q.Settle(d.Context(), ended...)
	require.NoError(t, err)
	require.Equal(t, []outbox.Lease{ds[0].Lease}, lost)
	st, err := d.q.Stats(d.Context())
	require.NoError(t, err)
	require.Zero(t, st.Waiting+st.Dead)
}

// A list is read in pages of 100.
func TestAListOfAnyLengthIsWhole(t *testing.T) {
	d := newDesk(t)
	const many = 201
	d.enqueue(batch("e", many)...)
	count := func(state outbox.State) (n int) {
		for _, err := range d.q.Events(d.Context(), outbox.Selection{State: state}) {
			require.NoError(t, err)
			n++
		}
		return n
	}
	require.Equal(t, many, count(outbox.StateWaiting))
	ds, err := d.q.Claim(d.Context(), outbox.Claim{Max: many, Lease: time.Hour})
	require.NoError(t, err)
	d.settle(outbox.Dead, ds...)
	require.Equal(t, many, count(outbox.StateDead))
}

// A purge that has reached its limit lets the next one begin there. That one also finds what was sent before the place.
func TestAPurgeDeletesWhatAnEarlierOneHasPassed(t *testing.T) {
	d := newDesk(t)
	d.enqueue(outbox.Event{ID: "first"}, outbox.Event{ID: "second"})
	ds := d.claim("first", "second")
	for _, sent := range []outbox.Delivery{ds[1], ds[0]} {
		d.settle(outbox.Sent, sent)
		n, err := d.q.Purge(d.Context(), 0, 1)
		require.NoError(t, err)
		require.Equal(t, 1, n, sent.Event.ID)
	}
}

// Postgres keeps microseconds.
func TestASelectionBetweenTwoMicrosecondsIsTheLater(t *testing.T) {
	d := newDesk(t)
	d.enqueue(outbox.Event{ID: "a"})
	found := func(s outbox.Selection) (n int, at time.Time) {
		for e, err := range d.q.Events(d.Context(), s) {
			require.NoError(t, err)
			n, at = n+1, e.EnqueuedAt
		}
		return n, at
	}
	_, at := found(outbox.Selection{})
	for since, want := range map[time.Duration]int{-1: 1, 0: 1, 1: 0, time.Microsecond: 0} {
		n, _ := found(outbox.Selection{Since: at.Add(since)})
		require.Equal(t, want, n, since)
	}
	for until, want := range map[time.Duration]int{-1: 0, 0: 0, 1: 1, time.Microsecond: 1} {
		n, _ := found(outbox.Selection{Until: at.Add(until)})
		require.Equal(t, want, n, until)
	}
}

// No event can have such a name, because Postgres stores no NUL.
func TestALetterWithANameThatCannotBeStoredIsMissing(t *testing.T) {
	d := newDesk(t)
	for _, name := range [][2]string{{"a\x00", "d"}, {"a", "d\x00"}, {"a\x00", "d\x00"}} {
		require.ErrorIs(t, d.q.Redrive(d.Context(), name[0], name[1]), outbox.ErrNoLetter)
		require.ErrorIs(t, d.q.Drop(d.Context(), name[0], name[1]), outbox.ErrNoLetter)
	}
}

func TestAnEmptyBatchSendsNothing(t *testing.T) {
	d := newDesk(t)
	tx := d.begin(pgx.ReadCommitted)
	require.NoError(t, tx.Rollback(d.Context()))
	ids, err := d.q.EnqueueBatch(d.Context(), tx.Tx, nil)
	require.NoError(t, err)
	require.Empty(t, ids)
	ended, end := context.WithCancel(d.Context())
	end()
	_, err = d.q.EnqueueBatch(ended, tx.Tx, nil)
	require.ErrorIs(t, err, context.Canceled)
	_, err = d.q.EnqueueBatch(d.Context(), nil, nil)
	require.ErrorContains(t, err, "transaction")
}
