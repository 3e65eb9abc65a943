package pgoutbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/redo-go/redo/outbox"
)

// entrySQL are the columns of an entry, read by scanEntry.
const entrySQL = `o.seq, e.attempts, o.id, o.type, o.destination, coalesce(o.ordering_key, ''), o.header::text,
	o.payload, o.enqueued_at, e.due_at, e.died_at, e.history::text`

// selectedSQL holds for the rows o of the log that a selection names.
const selectedSQL = `($3::text = '' OR o.id = $3) AND ($4::text IS NULL OR o.destination = $4)
	AND ($5::text = '' OR o.type = $5) AND o.enqueued_at >= coalesce($6::timestamptz, '-infinity')
	AND o.enqueued_at < coalesce($7::timestamptz, 'infinity')`

// Each of the following reads a page of entries behind a place: $1 and $2.
const (
	// deadSQL reads dead letters.
	deadSQL = `
SELECT ` + entrySQL + ` FROM {.late} AS e JOIN {table} AS o ON o.seq = e.seq
WHERE e.state = 3 AND (e.died_at, e.seq) > (coalesce($2::timestamptz, '-infinity'), $1::bigint) AND ` + selectedSQL + `
ORDER BY e.died_at, e.seq LIMIT 100`

	// passedSQL reads events that the cursor has passed: late ones, and those under way.
	passedSQL = `
SELECT ` + entrySQL + ` FROM (
	SELECT l.seq, l.attempts, l.due_at, NULL::timestamptz AS died_at, l.history FROM {.late} AS l
	WHERE l.state = 1
	UNION ALL
	SELECT x.seq, coalesce(l.attempts, 1), c.lease_end, NULL, coalesce(l.history, '[]')
	FROM {.claim} AS c CROSS JOIN unnest(c.open) AS x (seq) LEFT JOIN {.late} AS l ON l.seq = x.seq) AS e
JOIN {table} AS o ON o.seq = e.seq
WHERE e.seq > $1::bigint AND $2::timestamptz IS NULL AND ` + selectedSQL + `
ORDER BY e.seq LIMIT 100`

	// unreadSQL reads events that the cursor has not passed.
	unreadSQL = `
WITH ` + curSQL + `,
unread AS (
	SELECT o.* FROM {table} AS o WHERE o.seq > (SELECT head FROM cur) AND o.seq > $1::bigint AND ` + selectedSQL + `
	ORDER BY o.seq LIMIT 100
),
pending AS (
	SELECT o.* FROM cur JOIN {table} AS o ON ` + pendingSQL + ` WHERE o.seq > $1::bigint AND ` + selectedSQL + `
	UNION ALL
	SELECT o.* FROM cur JOIN {table} AS o ON ` + halfwaySQL + ` WHERE o.seq > $1::bigint AND ` + selectedSQL + `
)
SELECT o.seq, 0, o.id, o.type, o.destination, coalesce(o.ordering_key, ''), o.header::text, o.payload,
	o.enqueued_at, o.enqueued_at, NULL::timestamptz, '[]'
FROM (SELECT * FROM unread UNION ALL SELECT * FROM pending) AS o
WHERE $2::timestamptz IS NULL ORDER BY o.seq LIMIT 100`
)

// Events implements [outbox.Backlog]. It reads a hundred events at a time. An event that a relay claims meanwhile may
// be missing.
func (q *Queue) Events(ctx context.Context, s outbox.Selection) iter.Seq2[outbox.Entry, error] {
	return func(yield func(outbox.Entry, error) bool) {
		lists := []string{q.sql.dead, q.sql.passed, q.sql.unread}
		switch s.State {
		case outbox.StateDead:
			lists = lists[:1]
		case outbox.StateWaiting:
			lists = lists[1:]
		}
		for _, list := range lists {
			if !q.eachEntry(ctx, list, s, yield) {
				return
			}
		}
	}
}

// eachEntry yields the entries of a list, and reports whether the caller wants more.
func (q *Queue) eachEntry(
	ctx context.Context, list string, s outbox.Selection, yield func(outbox.Entry, error) bool,
) bool {
	last := entry{}
	for {
		page, err := q.entriesBehind(ctx, list, s, last)
		if err != nil {
			yield(outbox.Entry{}, err)
			return false
		}
		for _, e := range page {
			if !yield(e.Entry, e.err) {
				return false
			}
		}
		if len(page) < 100 {
			return true
		}
		last = page[len(page)-1]
	}
}

// An entry is an Entry, its place, and why it could not be read.
type entry struct {
	outbox.Entry
	seq int64
	err error
}

func (q *Queue) entriesBehind(
	ctx context.Context, list string, s outbox.Selection, last entry,
) (page []entry, err error) {
	args := []any{last.seq, instant(last.DeadAt), s.ID, text(s.Destination), s.Type, instant(s.Since), instant(s.Until)}
	err = q.run(ctx, false, func(on *pgx.Conn) error {
		rows, _ := on.Query(ctx, list, args...) // CollectRows returns its error
		page, err = pgx.CollectRows(rows, scanEntry)
		return err
	})
	return page, err
}

// instant returns nil for the zero time. Postgres keeps microseconds, so an instant between two of them is the later.
func instant(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	if cut := t.Truncate(time.Microsecond); cut.Before(t) {
		t = cut.Add(time.Microsecond)
	}
	return &t
}

func text(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

func scanEntry(row pgx.CollectableRow) (entry, error) {
	var e entry
	var header, history string
	var diedAt *time.Time
	ev := &e.Event
	err := row.Scan(&e.seq, &e.Attempts, &ev.ID, &ev.Type, &ev.Destination, &ev.OrderingKey, &header,
		&ev.Payload, &e.EnqueuedAt, &e.DueAt, &diedAt, &history)
	if err != nil {
		return entry{}, err
	}
	if e.State = outbox.StateWaiting; diedAt != nil {
		e.State, e.DeadAt, e.DueAt = outbox.StateDead, *diedAt, time.Time{}
	}
	var past []storedFailure
	ev.Header, err = decodeHeader(header)
	e.err = errors.Join(err, json.Unmarshal([]byte(history), &past))
	for _, f := range past {
		e.History = append(e.History, outbox.PastFailure{At: time.UnixMicro(f.At), Failure: f.failure()})
	}
	if e.err != nil {
		e.err = fmt.Errorf("pgoutbox: event %q: %w", ev.ID, e.err)
	}
	return e, nil
}
