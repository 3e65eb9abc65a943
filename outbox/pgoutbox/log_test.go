package pgoutbox_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/outbox"
)

// batch returns n events named after a prefix.
func batch(prefix string, n int) (evs []outbox.Event) {
	for i := range n {
		evs = append(evs, outbox.Event{ID: fmt.Sprintf("%s-%04d", prefix, i)})
	}
	return evs
}

// all claims and settles until there is nothing left, and returns the ids.
func (d desk) all(c outbox.Claim) (ids []string) {
	d.Helper()
	c.Lease = 3_600_000_000_000
	for {
		ds, err := d.q.Claim(d.Context(), c)
		require.NoError(d, err)
		if len(ds) == 0 {
			return ids
		}
		for _, d := range ds {
			ids = append(ids, d.Event.ID)
		}
		d.settle(outbox.Sent, ds...)
	}
}

func ids(evs []outbox.Event) (ids []string) {
	for _, ev := range evs {
		ids = append(ids, ev.ID)
	}
	return ids
}

// More rows of late transactions than a claim reads appear before the head, and other transactions commit meanwhile.
func TestRowsOfManyLateTransactionsAreReadInOrder(t *testing.T) {
	for _, most := range []int{1, 7, 1000} {
		d := newDesk(t)
		first, second, third := d.begin(pgx.ReadCommitted), d.begin(pgx.ReadCommitted), d.begin(pgx.ReadCommitted)
		for i, tx := range []open{first, second, third} {
			_, err := d.q.EnqueueBatch(t.Context(), tx, batch(fmt.Sprint(i), 30))
			require.NoError(t, err)
		}
		_, err := d.q.EnqueueBatch(t.Context(), first, batch("0b", 5))
		require.NoError(t, err)
		d.enqueue(outbox.Event{ID: "early"})
		d.claim("early")
		second.commit()
		first.commit()
		d.enqueue(outbox.Event{ID: "after"})
		part := d.claimed(outbox.Claim{Max: 1}, "0-0000")
		third.commit() // while the others are being read
		got := d.all(outbox.Claim{Max: most})
		want := append(append(ids(batch("0", 30))[1:], ids(batch("1", 30))...), append(ids(batch("0b", 5)), "after")...)
		if most == 1000 {
			require.ElementsMatch(t, append(want, ids(batch("2", 30))...), got)
		}
		kept := got[:0:0]
		for _, id := range got {
			if id[:2] != "2-" {
				kept = append(kept, id)
			}
		}
		require.Len(t, got, len(want)+30, "with %d", most)
		require.Equal(t, want, kept, "with %d", most)
		d.settle(outbox.Sent, part...)
		st, err := d.q.Stats(t.Context())
		require.NoError(t, err)
		require.Equal(t, 1, st.Waiting, "early is still claimed")
	}
}

// More events may stay than a statement of Purge reads.
func TestAPurgePassesAPageOfEventsThatStay(t *testing.T) {
	const page = 5000
	d := newDesk(t)
	for i := range page / 1000 {
		d.enqueue(batch(fmt.Sprint("stays", i), 1000)...)
	}
	d.enqueue(outbox.Event{ID: "sent"})
	for claimed := 0; claimed <= page; {
		ds, err := d.q.Claim(t.Context(), outbox.Claim{Max: 1000, Lease: time.Hour})
		require.NoError(t, err)
		require.NotEmpty(t, ds)
		if claimed += len(ds); ds[len(ds)-1].Event.ID == "sent" {
			d.settle(outbox.Sent, ds[len(ds)-1])
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	n, err := d.q.Purge(ctx, 0, page)
	require.NoError(t, err)
	require.Equal(t, 1, n)
}

// A transaction that writes elsewhere for a long time holds nothing up, and is kept as pending.
func TestLongTransactionHoldsNothingUp(t *testing.T) {
	d := newDesk(t)
	long := d.begin(pgx.ReadCommitted)
	long.exec("CREATE TEMPORARY TABLE other (id int)") // gets a number
	for i := range 5 {
		d.enqueue(outbox.Event{ID: fmt.Sprint(i)})
		d.settle(outbox.Sent, d.claim(fmt.Sprint(i))...)
		require.Equal(t, 1, d.count("_cursor", "cardinality(pending) >= 1"))
	}
	_, err := d.q.Enqueue(t.Context(), long, outbox.Event{ID: "late"})
	require.NoError(t, err)
	d.enqueue(outbox.Event{ID: "behind"})
	d.claim("behind")
	long.commit()
	d.claim("late")
}

// After a dump and a restore the numbers of transactions begin anew, or are ahead.
func TestCursorOfAnotherClusterIsUsed(t *testing.T) {
	for name, pending := range map[string]string{"ahead": "{900000000000000}", "behind": "{3}"} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t)
			d.enqueue(outbox.Event{ID: "pending"}, outbox.Event{ID: "sent"})
			d.settle(outbox.Sent, d.claim("pending", "sent")...)
			d.exec(t, "UPDATE "+d.table()+" SET xid = ('"+pending+"'::bigint[])[1] WHERE id = 'pending'")
			d.exec(t, "UPDATE "+d.named("_cursor")+" SET pending = '"+pending+"'")
			d.enqueue(outbox.Event{ID: "new"})
			d.claim("pending", "new")
			d.claim()
		})
	}
}

// In another cluster, an open transaction may have the number of one of the dump, whose events were sent.
func TestNumberOfAnEarlierClusterRepeatsNoEvent(t *testing.T) {
	for name, event := range map[string]func(id string) outbox.Event{ // each statement that reads the log
		"few": func(id string) outbox.Event { return outbox.Event{ID: id} },
		"log": func(id string) outbox.Event { return keyed(id, "line of "+id) },
	} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t)
			d.enqueue(event("dead"), event("sent"))
			ds := d.claim("dead", "sent")
			d.settle(outbox.Dead, ds[0])
			d.settle(outbox.Sent, ds[1])
			d.enqueue(event("backlog"))
			long := d.begin(pgx.ReadCommitted)
			long.exec("CREATE TEMPORARY TABLE other (id int)") // gets a number
			var number int64
			require.NoError(t, long.QueryRow(t.Context(), "SELECT pg_current_xact_id()::text::bigint").Scan(&number))
			d.exec(t, fmt.Sprintf("UPDATE %s SET xid = %d", d.table(), number))

			d.settle(outbox.Sent, d.claim("backlog")...)
			d.claim()
			_, err := d.q.Enqueue(t.Context(), long, event("late"))
			require.NoError(t, err)
			d.enqueue(event("early"))
			d.settle(outbox.Sent, d.claim("early")...)
			long.commit()
			d.settle(outbox.Sent, d.claim("late")...)
			require.Equal(t, 1, d.count("_late", "state = 3"), "the dead letter is kept")
		})
	}
}

// A subtransaction has another number than its transaction. The event has the transaction's.
func TestEventOfASavepointIsNotSkipped(t *testing.T) {
	d := newDesk(t)
	tx := d.begin(pgx.ReadCommitted)
	inner, err := tx.Begin(t.Context())
	require.NoError(t, err)
	_, err = d.q.Enqueue(t.Context(), inner, outbox.Event{ID: "late"})
	require.NoError(t, err)
	d.enqueue(outbox.Event{ID: "early"})
	d.claim("early")
	require.NoError(t, inner.Commit(t.Context()))
	tx.commit()
	d.claim("late")
}

// A batch meets an event that another transaction has not committed when the batch's statement begins.
func TestBatchIsUndoneIfAnotherTransactionIsFaster(t *testing.T) {
	d := newDesk(t)
	other, tx := d.begin(pgx.ReadCommitted), d.begin(pgx.ReadCommitted)
	_, err := d.q.Enqueue(t.Context(), other, outbox.Event{ID: "b"})
	require.NoError(t, err)
	enqueued := make(chan error, 1)
	go func() {
		_, err := d.q.EnqueueBatch(t.Context(), tx, []outbox.Event{{ID: "a"}, {ID: "b"}, {ID: "c"}})
		enqueued <- err
	}()
	d.waits(other)
	other.commit()
	err = <-enqueued
	require.ErrorIs(t, err, outbox.ErrDuplicate)
	require.ErrorContains(t, err, `"b"`)
	_, err = d.q.EnqueueBatch(t.Context(), tx, []outbox.Event{{ID: "c"}, {ID: "d"}})
	require.NoError(t, err, "the transaction can go on")
	tx.commit()
	require.ElementsMatch(t, []string{"b", "c", "d"}, d.all(outbox.Claim{Max: 10}))
}

// Only claimed events count: a destination that is full makes no event late if nothing else is behind it.
func TestLogOfOneDestinationIsNotPassed(t *testing.T) {
	d := newDesk(t)
	d.fill(t, 5000, 0)
	for range 20 {
		ds, err := d.q.Claim(t.Context(), outbox.Claim{Max: 1000, PerDestination: 4, Lease: 3_600_000_000_000})
		require.NoError(t, err)
		require.Len(t, ds, 4)
		none, err := d.q.Claim(t.Context(),
			outbox.Claim{Max: 1000, Room: map[string]int{"": 0}, Lease: 3_600_000_000_000})
		require.NoError(t, err)
		require.Empty(t, none)
	}
	require.Zero(t, d.count("_late", "true"))
	require.Len(t, d.all(outbox.Claim{Max: 1000}), 5000-80)
}
