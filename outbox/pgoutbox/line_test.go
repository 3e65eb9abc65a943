package pgoutbox_test

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/outbox"
)

// A claim looks at each event that is due, so that a long line behind one which rests must not be.
func TestThoseBehindAnEventThatRestsRestWithIt(t *testing.T) {
	p := newPlace(t)
	q, pool := p.open(t)
	tx := beginPGX(t, q, pool)
	for _, id := range []string{"head", "a2", "a3", "a4"} {
		_, err := tx.Enqueue(t.Context(), keyed(id, "a"))
		require.NoError(t, err)
	}
	require.NoError(t, tx.Commit(t.Context()))
	table := pgx.Identifier{p.schema, "redo_outbox"}.Sanitize()
	due := func(want ...string) {
		t.Helper()
		rows, err := pool.Query(t.Context(), "SELECT id FROM "+table+" WHERE state = 1 AND due_at <= clock_timestamp() ORDER BY seq")
		require.NoError(t, err)
		got, err := pgx.CollectRows(rows, pgx.RowTo[string])
		require.NoError(t, err)
		require.Equal(t, append([]string{}, want...), got)
	}
	claim := func(id string) outbox.Delivery {
		t.Helper()
		ds, err := q.Claim(t.Context(), outbox.Claim{Max: 9, Lease: time.Hour})
		require.NoError(t, err)
		require.Len(t, ds, 1)
		require.Equal(t, id, ds[0].Event.ID)
		return ds[0]
	}
	settle := func(d outbox.Delivery, o outbox.Outcome) {
		t.Helper()
		require.NoError(t, q.Settle(t.Context(), d.Lease, o))
	}
	rest := outbox.Outcome{Result: outbox.Waiting, Wait: time.Hour}

	due("head", "a2", "a3", "a4")
	settle(claim("head"), rest)
	due()
	p.exec(t, "UPDATE "+table+" SET due_at = clock_timestamp() WHERE id = 'head'") // its time has come
	settle(claim("head"), outbox.Outcome{Result: outbox.Sent})
	due("a2") // and no other: it is the next one's turn to tell
	settle(claim("a2"), outbox.Outcome{Result: outbox.Dead})
	due("a3")
	a3 := claim("a3")
	require.NoError(t, q.Redrive(t.Context(), "a2"))
	settle(a3, rest)
	settle(claim("a2"), outbox.Outcome{Result: outbox.Sent})
	due() // a3 was tried, and keeps its own time, and a4 rests with it
}
