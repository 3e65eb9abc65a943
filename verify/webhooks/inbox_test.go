package main

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/inbox"
	"github.com/redo-go/redo/outbox"
	"github.com/redo-go/redo/taxonomy"
)

// A shop is an inbox over Postgres with a ledger beside its records.
type shop struct {
	*place[pgx.Tx]
	events *inbox.Transactional[pgx.Tx]
	db     *database
	table  string
}

func openShop(t *testing.T) *shop {
	t.Helper()
	db, err := openDatabase(t.Context(), postgres(t))
	require.NoError(t, err)
	t.Cleanup(db.Close)
	schema := db.schemas["consumer"]
	p, err := inSchema(t.Context(), db.url, schema)
	require.NoError(t, err)
	t.Cleanup(p.close)
	s := &shop{place: p, db: db, table: pgx.Identifier{schema, "refunds"}.Sanitize()}
	_, err = db.Pool.Exec(t.Context(), "CREATE TABLE "+s.table+" (id text)")
	require.NoError(t, err)
	s.events, err = inbox.NewTransactional(p.records,
		inbox.Backoff(func(int) time.Duration { return 0 }), inbox.MaxAttempts(3))
	require.NoError(t, err)
	return s
}

// enter returns a handler that enters the event and then calls next.
func (s *shop) enter(next func(ctx context.Context, tx pgx.Tx, ev inbox.Event) error) inbox.TxHandler[pgx.Tx] {
	return func(ctx context.Context, tx pgx.Tx, ev inbox.Event) error {
		if _, err := tx.Exec(ctx, "INSERT INTO "+s.table+" VALUES ($1)", ev.ID); err != nil {
			return err
		}
		return next(ctx, tx, ev)
	}
}

func (s *shop) entries(t *testing.T, id string) (n int) {
	t.Helper()
	row := s.db.Pool.QueryRow(t.Context(), "SELECT count(*) FROM "+s.table+" WHERE id = $1", id)
	require.NoError(t, row.Scan(&n))
	return n
}

var errBroken = errors.New("the handler is broken")

func fails(context.Context, pgx.Tx, inbox.Event) error    { return errBroken }
func succeeds(context.Context, pgx.Tx, inbox.Event) error { return nil }

func TestPostgresKeepsAnEventFromItsFirstFailureOn(t *testing.T) {
	s, ctx := openShop(t), t.Context()
	ev := inbox.Event{Source: "bank", ID: "ev_1", Payload: make([]byte, inbox.MaxPayload)}
	other := inbox.Event{Source: "bank", ID: "ev_1", Payload: []byte("other")}
	_, err := s.events.Receive(ctx, ev, s.enter(fails))
	require.ErrorIs(t, err, inbox.HandlerFailed)
	_, err = s.events.Receive(ctx, other, s.enter(succeeds))
	require.ErrorIs(t, err, taxonomy.PayloadMismatch)
	kept := 0
	for w, err := range s.events.Waiting(ctx, "bank") {
		require.NoError(t, err)
		require.Equal(t, ev.Payload, w.Payload)
		require.Equal(t, 1, w.Attempts)
		kept++
	}
	require.Equal(t, 1, kept)
	r, err := s.events.Redrive(ctx, "bank", "ev_1", s.enter(fails))
	require.NoError(t, err)
	require.Equal(t, inbox.DeadLettered, r.Status)
	require.Zero(t, s.entries(t, "ev_1"))
	r, err = s.events.Receive(ctx, other, s.enter(succeeds))
	require.NoError(t, err)
	require.True(t, r.PayloadMismatch)
	for l, err := range s.events.DeadLetters(ctx, "") {
		require.NoError(t, err)
		r, err = s.events.Redrive(ctx, l.Source, l.ID, s.enter(succeeds))
		require.NoError(t, err)
	}
	require.Equal(t, inbox.Processed, r.Status)
	require.Equal(t, 3, r.Attempts)
	r, err = s.events.Receive(ctx, other, s.enter(succeeds))
	require.NoError(t, err)
	require.True(t, r.PayloadMismatch)
	require.Equal(t, 1, s.entries(t, "ev_1"))
}

func TestPostgresRepeatsNoHandlerThatHasEndedItsTransaction(t *testing.T) {
	s, ctx := openShop(t), t.Context()
	ev := inbox.Event{Source: "bank", ID: "ev_1", Payload: []byte("p")}
	commits := s.enter(func(ctx context.Context, tx pgx.Tx, _ inbox.Event) error {
		_, err := tx.Exec(ctx, "COMMIT")
		return err
	})
	for range 3 {
		r, err := s.events.Receive(ctx, ev, commits)
		require.NoError(t, err)
		require.True(t, r.Unknown)
		_, err = s.events.Redrive(ctx, "bank", "ev_1", commits)
		require.ErrorIs(t, err, taxonomy.OutcomeUnknown)
	}
	require.Equal(t, 1, s.entries(t, "ev_1"))

	// A refused Rollback is a failed attempt.
	ev.ID = "ev_2"
	_, err := s.events.Receive(ctx, ev, s.enter(func(ctx context.Context, tx pgx.Tx, _ inbox.Event) error {
		_ = tx.Rollback(ctx)
		return nil
	}))
	require.ErrorIs(t, err, inbox.HandlerFailed)
	_, err = s.events.Receive(ctx, ev, s.enter(succeeds))
	require.NoError(t, err)
	require.Equal(t, 1, s.entries(t, "ev_2"))
}

func TestPostgresHandlesAcceptedEventsOnce(t *testing.T) {
	s := openShop(t)
	const events = 200
	handled := make(chan string, 10*events)
	h := s.enter(func(_ context.Context, _ pgx.Tx, ev inbox.Event) error {
		handled <- ev.ID
		if ev.Attempt == 1 && ev.ID[len(ev.ID)-1] == '3' {
			return errBroken
		}
		return nil
	})
	accepted, err := inbox.Accept(s.queue, s.events.Receiver(h), outbox.PollInterval(10*time.Millisecond),
		outbox.Retry(time.Millisecond, time.Millisecond, time.Millisecond))
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 2)
	for range 2 { // two relays share the queue
		go func() { ended <- accepted.Run(ctx) }()
	}
	ids := make([]string, events)
	for i := range ids {
		ids[i] = time.Unix(int64(i), 0).UTC().Format("ev_150405")
		for range 2 {
			r, err := accepted.Receive(t.Context(), inbox.Event{Source: "bank", ID: ids[i], Payload: []byte(ids[i])})
			require.NoError(t, err)
			require.Contains(t, []inbox.Status{inbox.Accepted, inbox.Replayed}, r.Status)
		}
	}
	require.Eventually(t, func() bool {
		stats, err := s.queue.Stats(t.Context())
		return err == nil && stats.Waiting == 0
	}, time.Minute, 5*time.Millisecond)
	stop()
	require.NoError(t, errors.Join(<-ended, <-ended))
	for _, id := range ids {
		require.Equal(t, 1, s.entries(t, id), id)
	}
	require.Len(t, handled, events+events/10)
	for _, err := range accepted.DeadLetters(t.Context(), "") {
		require.Fail(t, "a dead letter", "%v", err)
	}
}
