package pgoutbox

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/redo-go/redo/outbox"
	"github.com/redo-go/redo/store"
)

// unreadSeqSQL are the conditions on rows o of the log that no claim has read, in view of the cursor's row cur. There
// are three, because each has its index.
const (
	aheadSQL   = `o.seq > cur.head`
	pendingSQL = `o.xid = ANY (cur.pending) AND o.seq <= cur.head`
	halfwaySQL = `o.xid = ANY (cur.reading) AND o.seq <= cur.head AND o.seq > cur.place`
)

const curSQL = `cur AS MATERIALIZED (SELECT head, pending, reading, place FROM {.cursor} ORDER BY n DESC LIMIT 1)`

const statsSQL = `
WITH ` + curSQL + `,
waiting AS MATERIALIZED (
	SELECT count(*) AS n, min(o.enqueued_at) AS oldest FROM cur JOIN {table} AS o ON ` + aheadSQL + `
	UNION ALL SELECT count(*), min(o.enqueued_at) FROM cur JOIN {table} AS o ON ` + pendingSQL + `
	UNION ALL SELECT count(*), min(o.enqueued_at) FROM cur JOIN {table} AS o ON ` + halfwaySQL + `
	UNION ALL SELECT count(*), min(o.enqueued_at) FROM {.claim} AS c CROSS JOIN unnest(c.open) AS x (seq)
		JOIN {table} AS o ON o.seq = x.seq
	UNION ALL SELECT count(*), min(o.enqueued_at) FROM {.late} AS l JOIN {table} AS o ON o.seq = l.seq WHERE l.state = 1
)
SELECT sum(n)::bigint, coalesce((extract(epoch FROM clock_timestamp() - min(oldest)) * 1000000)::bigint, 0),
	(SELECT count(*) FROM {.late} WHERE state = 3)
FROM waiting`

// Stats implements [outbox.Backlog]. It counts the events that wait, so it takes longer if there are more of them.
func (q *Queue) Stats(ctx context.Context) (outbox.Stats, error) {
	var waiting, oldest, dead int64
	err := q.run(ctx, false, func(on *pgx.Conn) error {
		return on.QueryRow(ctx, q.sql.stats).Scan(&waiting, &oldest, &dead)
	})
	if err != nil {
		return outbox.Stats{}, err
	}
	st := outbox.Stats{Waiting: int(waiting), Dead: int(dead), Oldest: time.Duration(oldest) * time.Microsecond}
	if waiting > 0 {
		st.Oldest = max(st.Oldest, time.Microsecond) // the clock may have been set back
	}
	return st, nil
}

// letterSQL finds a dead letter. The subquery goes from the log to the late event.
const letterSQL = `letter AS MATERIALIZED (
	SELECT l.seq, l.destination, l.ordering_key FROM {table} AS o
	CROSS JOIN LATERAL (SELECT l.* FROM {.late} AS l WHERE l.seq = o.seq AND l.state = 3 FOR UPDATE) AS l
	WHERE o.id = $1::text AND o.destination = $2::text
),
marked AS (
	UPDATE {.line} AS l SET queued = true, held = false, due_at = clock_timestamp() FROM letter AS t
	WHERE l.destination = t.destination AND l.ordering_key = t.ordering_key
)`

const redriveSQL = `
WITH ` + letterSQL + `,
revived AS (
	UPDATE {.late} AS l SET state = 1, attempts = 0, first_at = NULL, died_at = NULL, due_at = clock_timestamp()
	FROM letter AS t WHERE l.seq = t.seq RETURNING l.seq
)
SELECT count(seq) FROM revived WHERE {notify}`

const dropSQL = `
WITH ` + letterSQL + `,
dropped AS (DELETE FROM {.late} AS l USING letter AS t WHERE l.seq = t.seq),
forgotten AS (DELETE FROM {table} AS o USING letter AS t WHERE o.seq = t.seq RETURNING o.seq)
SELECT count(seq) FROM forgotten WHERE {notify}`

// Redrive implements [outbox.Backlog].
func (q *Queue) Redrive(ctx context.Context, id, destination string) error {
	return q.onLetter(ctx, q.sql.redrive, id, destination)
}

// Drop implements [outbox.Backlog].
func (q *Queue) Drop(ctx context.Context, id, destination string) error {
	return q.onLetter(ctx, q.sql.drop, id, destination)
}

// onLetter sends a statement that changes the dead letter.
func (q *Queue) onLetter(ctx context.Context, text, id, destination string) error {
	var n int64
	if id == storable(id) && destination == storable(destination) {
		err := q.run(ctx, true, func(on *pgx.Conn) error { return on.QueryRow(ctx, text, id, destination).Scan(&n) })
		if err != nil {
			return err
		}
	}
	if n == 0 {
		return fmt.Errorf("%w: %.300q", outbox.ErrNoLetter, id)
	}
	return nil
}

// maxAge keeps the instant that Purge computes within the range of Postgres.
const maxAge = 100 * 365 * 24 * time.Hour

// pageOfPurge is the number of rows of the log that a statement of Purge reads at most.
const pageOfPurge = 5000

// purgeSQL deletes sent events from a page of the log behind a place ($1). Its other parameters are the age ($2) and
// the limit ($3). It returns how many rows it read and deleted, and the place of the last one that it read. It reads no
// row behind one that is not old enough, because the rows are nearly in the order of their age.
const purgeSQL = `
WITH ` + curSQL + `,
edge AS MATERIALIZED (SELECT clock_timestamp() - $2::bigint * interval '1 microsecond' AS at),
page AS MATERIALIZED (
	SELECT o.seq, o.xid, o.enqueued_at FROM {table} AS o
	WHERE o.seq > $1::bigint AND o.seq <= (SELECT head FROM cur) ORDER BY o.seq LIMIT 5000
),
old AS MATERIALIZED (
	SELECT p.* FROM page AS p, edge
	WHERE p.seq < coalesce((SELECT min(p.seq) FROM page AS p, edge WHERE p.enqueued_at >= edge.at), 9223372036854775807)
),
kept AS MATERIALIZED (
	SELECT l.seq FROM {.late} AS l WHERE l.seq = ANY (ARRAY(SELECT seq FROM old))
	UNION ALL SELECT unnest(c.open) FROM {.claim} AS c
	UNION ALL SELECT old.seq FROM cur JOIN old ON old.xid = ANY (cur.pending)
	UNION ALL SELECT old.seq FROM cur JOIN old ON old.xid = ANY (cur.reading) AND old.seq > cur.place
),
chosen AS MATERIALIZED (
	SELECT seq FROM old WHERE NOT EXISTS (SELECT FROM kept WHERE kept.seq = old.seq) ORDER BY seq LIMIT $3::bigint
),
deleted AS (DELETE FROM {table} WHERE seq = ANY (ARRAY(SELECT seq FROM chosen)) RETURNING seq)
SELECT (SELECT count(*) FROM old), count(d.seq), coalesce(CASE WHEN count(d.seq) = $3::bigint THEN max(d.seq)
	ELSE (SELECT max(seq) FROM old) END, $1::bigint)
FROM deleted AS d`

// Purge implements [outbox.Backlog]. It reads the log from its beginning, or from where the last Purge of this Queue
// reached its limit.
func (q *Queue) Purge(ctx context.Context, age time.Duration, limit int) (int, error) {
	if age < 0 || limit < 1 {
		return 0, fmt.Errorf("pgoutbox: %w: the age is %v and the limit %d, they must not be negative and be positive",
			store.ErrInvalid, age, limit)
	}
	from, purged := q.purged.Load(), 0
	for {
		var read, deleted int
		to := from
		err := q.run(ctx, true, func(on *pgx.Conn) error {
			row := on.QueryRow(ctx, q.sql.purge, from, micros(min(age, maxAge)), int64(limit-purged))
			return row.Scan(&read, &deleted, &to)
		})
		if err != nil {
			return purged, err
		}
		purged += deleted
		switch {
		case purged == limit:
			q.purged.Store(to)
			return purged, nil
		case read == pageOfPurge:
			from = to
		case q.purged.Swap(0) == 0:
			return purged, nil
		default: // it has not begun at the beginning
			from = 0
		}
	}
}
