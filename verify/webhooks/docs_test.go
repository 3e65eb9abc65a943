package main

import (
	"context"
	"errors"
	"os"
	"regexp"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/inbox"
	"github.com/redo-go/redo/outbox"
	"github.com/redo-go/redo/taxonomy"
)

// blocks returns the documentation's code blocks in a language.
func blocks(t *testing.T, language string) []string {
	t.Helper()
	text, err := os.ReadFile("../../docs/webhooks.md")
	require.NoError(t, err)
	var found []string
	for _, m := range regexp.MustCompile("(?s)```"+language+"\n(.*?)```").FindAllStringSubmatch(string(text), -1) {
		found = append(found, m[1])
	}
	require.NotEmpty(t, found)
	return found
}

// Each query that docs/webhooks.md prints for operators is valid, and finds the rows that exist.
func TestEveryQueryOfTheDocsFindsWhatIsThere(t *testing.T) {
	ctx := t.Context()
	db, err := openDatabase(ctx, postgres(t))
	require.NoError(t, err)
	t.Cleanup(db.Close)
	p, err := inSchema(ctx, db.url, db.schemas["producer"])
	require.NoError(t, err)
	t.Cleanup(p.close)
	fillInbox(t, p)
	fillOutbox(t, p, db.Pool)

	conn, err := db.Pool.Acquire(ctx)
	require.NoError(t, err)
	t.Cleanup(conn.Release)
	_, err = conn.Exec(ctx, "SET search_path TO "+db.schemas["producer"])
	require.NoError(t, err)
	for _, q := range blocks(t, "sql") {
		rows, err := conn.Query(ctx, q)
		require.NoError(t, err, q)
		found, err := pgx.CollectRows(rows, pgx.RowToMap)
		require.NoError(t, err, q)
		require.Len(t, found, 1, q)
		for _, name := range []string{"waiting", "delivered", "letters"} {
			if n, counted := found[0][name]; counted {
				require.Positive(t, n, q)
			}
		}
	}
}

// fillInbox leaves a dead letter, and an event that rests after a failure.
func fillInbox(t *testing.T, p *place[pgx.Tx]) {
	t.Helper()
	events, err := inbox.NewTransactional(p.records)
	require.NoError(t, err)
	wrong := errors.New("wrong")
	_, err = events.Receive(t.Context(), inbox.Event{Source: "bank", ID: "ev_1"},
		func(context.Context, pgx.Tx, inbox.Event) error { return inbox.Reject(wrong) })
	require.NoError(t, err)
	_, err = events.Receive(t.Context(), inbox.Event{Source: "bank", ID: "ev_2"},
		func(context.Context, pgx.Tx, inbox.Event) error { return wrong })
	require.ErrorIs(t, err, wrong)
}

// fillOutbox leaves an event that was sent, a dead one, and two of one payment of which the first is retried. It
// disables a destination.
func fillOutbox(t *testing.T, p *place[pgx.Tx], pool *pgxpool.Pool) {
	t.Helper()
	err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		for _, ev := range []outbox.Event{
			{ID: "sent"}, {ID: "dead"}, {ID: "retried", OrderingKey: "payment_1"},
			{ID: "behind", OrderingKey: "payment_1"},
		} {
			if _, err := p.enqueue(t.Context(), tx, ev); err != nil {
				return err
			}
		}
		return nil
	})
	require.NoError(t, err)
	claimed, err := p.queue.Claim(t.Context(), outbox.Claim{Max: 4, Lease: time.Minute})
	require.NoError(t, err)
	down := outbox.Failure{Code: taxonomy.Unavailable, Reason: "down"}
	outcomes := map[string]outbox.Outcome{
		"sent": {Result: outbox.Sent}, "dead": {Result: outbox.Dead, Failure: down},
		"retried": {Result: outbox.Waiting, Wait: time.Hour, Failure: down},
	}
	for _, d := range claimed {
		outcome, chosen := outcomes[d.Event.ID]
		if !chosen { // a claim may take more events of a line
			outcome.Result = outbox.Released
		}
		lost, err := p.queue.Settle(t.Context(), outbox.Settlement{Lease: d.Lease, Outcome: outcome})
		require.NoError(t, err)
		require.Empty(t, lost)
	}
	require.NoError(t, p.queue.Disable(t.Context(), "https://gone.example/", down))
}
