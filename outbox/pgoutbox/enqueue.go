package pgoutbox

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/jackc/pgx/v5"

	"github.com/redo-go/redo/outbox"
	"github.com/redo-go/redo/store"
)

// Postgres evaluates the defaults in the order of the columns. So the transaction gets its number before a row gets its
// place, which logSQL needs.

// enqueueSQL adds an event unless the queue has it, and returns a row if it did.
const enqueueSQL = `
INSERT INTO {table} (id, destination, type, ordering_key, header, payload)
VALUES ($1::text, $2::text, $3::text, nullif($4::text, ''), $5::text::jsonb, $6::bytea)
ON CONFLICT (id, destination) DO NOTHING RETURNING `

// enqueueBatchSQL adds no row if it finds one of the events. It returns how many it added, and an event that it found.
// It does not find an event that another transaction is adding. It notifies relays if $1 is true.
const enqueueBatchSQL = `
WITH given AS MATERIALIZED ({given}),
taken AS MATERIALIZED (
	SELECT t.id FROM given AS g CROSS JOIN LATERAL (
		SELECT t.id FROM {table} AS t WHERE t.id = g.id AND t.destination = g.destination LIMIT 1) AS t
	LIMIT 1
),
added AS (
	INSERT INTO {table} (id, destination, type, ordering_key, header, payload)
	SELECT g.id, g.destination, g.type, nullif(g.ordering_key, ''), g.header::jsonb, g.payload
	FROM given AS g WHERE NOT EXISTS (SELECT FROM taken) ORDER BY g.nth
	ON CONFLICT (id, destination) DO NOTHING RETURNING seq
)
SELECT count(seq), (SELECT min(id) FROM taken) FROM added WHERE NOT $1::boolean OR {notify}`

// undoBatchSQL deletes the events that enqueueBatchSQL added before it met another transaction's event. It returns
// such an event.
const undoBatchSQL = `
WITH given AS MATERIALIZED ({given}),
undone AS (
	DELETE FROM {table} AS t USING given AS g
	WHERE t.id = g.id AND t.destination = g.destination AND t.xid = pg_current_xact_id()::text::bigint
)
SELECT coalesce(min(t.id), '') FROM given AS g JOIN {table} AS t ON t.id = g.id AND t.destination = g.destination
	AND t.xid <> pg_current_xact_id()::text::bigint WHERE $1::boolean IS NOT NULL`

// The events of a batch are arrays for pgx, and JSON for database/sql, whose drivers take arrays in different ways.
const (
	givenArraysSQL = `SELECT * FROM unnest($2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::bytea[])
		WITH ORDINALITY AS g (id, destination, type, ordering_key, header, payload, nth)`
	givenJSONSQL = `SELECT g."ID" AS id, g."Destination" AS destination, g."Type" AS type,
		g."OrderingKey" AS ordering_key, g."Header"::text AS header, decode(g."Payload", 'base64') AS payload, g.nth
		FROM ROWS FROM (json_to_recordset($2::text::json) AS ("ID" text, "Destination" text, "Type" text,
			"OrderingKey" text, "Header" json, "Payload" text)) WITH ORDINALITY AS g ("ID", "Destination", "Type",
			"OrderingKey", "Header", "Payload", nth)`
)

// Enqueue writes the event in the caller's transaction, in one statement, and returns its id. The event is delivered
// after the transaction has committed.
//
// It returns outbox.ErrDuplicate if the queue has an event with the id for the destination. If another transaction is
// enqueuing one, Enqueue waits for its end first. It returns store.ErrInvalid for an event that breaks a rule of
// [outbox.Event]. After these two errors nothing was written, and the transaction can go on. After any other error it
// must be rolled back.
func (q *Queue) Enqueue(ctx context.Context, tx pgx.Tx, ev outbox.Event) (string, error) {
	if tx == nil {
		return "", errNoTx
	}
	return q.enqueue(ctx, ev, func(text string, args ...any) scanner { return tx.QueryRow(ctx, text, args...) })
}

var errNoTx = fmt.Errorf("pgoutbox: %w: the transaction is nil", store.ErrInvalid)

// An SQLTx is a transaction of database/sql: *sql.Tx, or the *sqltx.Tx that pgstore.NewSQL's store hands out.
type SQLTx interface {
	// QueryRowContext is that of *sql.Tx.
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
	// Commit and Rollback are not called. They keep an *sql.DB from being passed, which would commit the event alone.
	Commit() error
	// Rollback: see Commit.
	Rollback() error
}

// EnqueueSQL is Enqueue for a transaction of database/sql, with any Postgres driver.
func (q *Queue) EnqueueSQL(ctx context.Context, tx SQLTx, ev outbox.Event) (string, error) {
	if tx == nil || tx == SQLTx((*sql.Tx)(nil)) {
		return "", errNoTx
	}
	return q.enqueue(ctx, ev, func(text string, args ...any) scanner { return tx.QueryRowContext(ctx, text, args...) })
}

type scanner interface{ Scan(into ...any) error }

func (q *Queue) enqueue(
	ctx context.Context, ev outbox.Event, send func(text string, args ...any) scanner,
) (string, error) {
	if err := ctx.Err(); err != nil {
		return "", err
	}
	ev, err := outbox.Prepare(ev)
	if err != nil {
		return "", err
	}
	header, err := encodeHeader(ev.Header)
	if err != nil {
		return "", err
	}
	text := q.sql.enqueue
	if q.notices.inside() {
		text = q.sql.enqueueNotify
	}
	var added bool
	err = send(text, ev.ID, ev.Destination, ev.Type, ev.OrderingKey, header, notNil(ev.Payload)).Scan(&added)
	switch {
	case errors.Is(err, sql.ErrNoRows): // pgx's error is this one too
		return "", duplicate(ev.ID)
	case err != nil:
		return "", q.table.Failure(ctx, err, false)
	}
	return ev.ID, nil
}

func notNil(payload []byte) []byte {
	if payload == nil {
		return []byte{}
	}
	return payload
}

func duplicate(id string) error { return fmt.Errorf("%w: %q", outbox.ErrDuplicate, id) }

// EnqueueBatch is Enqueue for several events: it writes all of them or, with an error, none. It is one statement,
// unless another transaction enqueues one of the events at the same time. It returns the ids in the order of the
// events.
//
// The error outbox.ErrDuplicate names the id of an event that the queue has, or that evs has twice for a destination.
func (q *Queue) EnqueueBatch(ctx context.Context, tx pgx.Tx, evs []outbox.Event) ([]string, error) {
	if tx == nil {
		return nil, errNoTx
	}
	return q.enqueueBatch(ctx, evs, q.sql.batch, batchArrays, func(text string, args ...any) scanner {
		return tx.QueryRow(ctx, text, args...)
	})
}

// EnqueueBatchSQL is EnqueueBatch for a transaction of database/sql, with any Postgres driver.
func (q *Queue) EnqueueBatchSQL(ctx context.Context, tx SQLTx, evs []outbox.Event) ([]string, error) {
	if tx == nil || tx == SQLTx((*sql.Tx)(nil)) {
		return nil, errNoTx
	}
	return q.enqueueBatch(ctx, evs, q.sql.batchJSON, batchJSON, func(text string, args ...any) scanner {
		return tx.QueryRowContext(ctx, text, args...)
	})
}

func (q *Queue) enqueueBatch(
	ctx context.Context, evs []outbox.Event, text batchTexts, encode func([]outbox.Event) ([]any, error),
	send func(text string, args ...any) scanner,
) ([]string, error) {
	if err := ctx.Err(); err != nil || len(evs) == 0 {
		return nil, err
	}
	evs, ids, err := outbox.PrepareBatch(evs)
	if err != nil {
		return nil, err
	}
	args, err := encode(evs)
	if err != nil {
		return nil, err
	}
	args = append([]any{q.notices.inside()}, args...)
	var n int
	var taken *string
	if err := send(text.enqueue, args...).Scan(&n, &taken); err != nil {
		return nil, q.table.Failure(ctx, err, false)
	}
	switch {
	case taken != nil:
		return nil, duplicate(*taken)
	case n == len(evs):
		return ids, nil
	}
	var id string
	if err := send(text.undo, args...).Scan(&id); err != nil {
		return nil, q.table.Failure(ctx, err, false)
	}
	return nil, duplicate(id)
}

type batchTexts struct{ enqueue, undo string }

func batchArrays(evs []outbox.Event) ([]any, error) {
	var ids, destinations, types, keys, headers []string
	var payloads [][]byte
	for _, ev := range evs {
		header, err := encodeHeader(ev.Header)
		if err != nil {
			return nil, err
		}
		ids, destinations, types = append(ids, ev.ID), append(destinations, ev.Destination), append(types, ev.Type)
		keys, headers, payloads = append(keys, ev.OrderingKey), append(headers, header),
			append(payloads, notNil(ev.Payload))
	}
	return []any{ids, destinations, types, keys, headers, payloads}, nil
}

func batchJSON(evs []outbox.Event) ([]any, error) {
	for i := range evs {
		evs[i].Payload = notNil(evs[i].Payload)
		if evs[i].Header == nil {
			evs[i].Header = http.Header{}
		}
	}
	text, err := json.Marshal(evs)
	return []any{string(text)}, err
}

// Append implements [outbox.Queue].
func (q *Queue) Append(ctx context.Context, evs ...outbox.Event) error {
	if err := ctx.Err(); err != nil || len(evs) == 0 {
		return err
	}
	evs, _, err := outbox.PrepareBatch(evs) // their ids are the same if the transaction is repeated
	if err != nil {
		return err
	}
	var refused error
	err = q.run(ctx, true, func(on *pgx.Conn) error {
		refused = nil
		err := pgx.BeginFunc(ctx, on, func(tx pgx.Tx) error {
			_, err := q.EnqueueBatch(ctx, tx, evs)
			return err
		})
		if errors.Is(err, outbox.ErrDuplicate) {
			refused, err = err, nil
		}
		return err
	})
	return errors.Join(err, refused)
}
