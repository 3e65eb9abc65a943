package pgoutbox

import (
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/redo-go/redo/outbox"
	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/taxonomy"
)

// Stats implements [outbox.Backlog]. It counts what waits, so that it takes longer the more that is.
func (q *Queue) Stats(ctx context.Context) (outbox.Stats, error) {
	var waiting, oldest, dead int64
	err := q.run(ctx, false, func(on *pgx.Conn) error {
		return on.QueryRow(ctx, q.sql.stats).Scan(&waiting, &oldest, &dead)
	})
	if err != nil {
		return outbox.Stats{}, err
	}
	return outbox.Stats{
		Waiting: int(waiting),
		Dead:    int(dead),
		Oldest:  max(0, time.Duration(oldest)*time.Microsecond),
	}, nil
}

// page is how many dead letters are read at a time.
const page = 100

// DeadLetters implements [outbox.Backlog].
func (q *Queue) DeadLetters(ctx context.Context) iter.Seq2[outbox.DeadLetter, error] {
	return func(yield func(outbox.DeadLetter, error) bool) {
		var last *letter
		for {
			letters, err := q.lettersAfter(ctx, last)
			if err != nil {
				yield(outbox.DeadLetter{}, err)
				return
			}
			for _, l := range letters {
				if !yield(l.DeadLetter, nil) {
					return
				}
			}
			if len(letters) < page {
				return
			}
			last = &letters[len(letters)-1]
		}
	}
}

type letter struct {
	outbox.DeadLetter
	seq int64
}

// lettersAfter returns the page of dead letters behind last, the first one when that is nil.
func (q *Queue) lettersAfter(ctx context.Context, last *letter) (letters []letter, err error) {
	var at *time.Time
	var seq int64
	if last != nil {
		at, seq = &last.DeadAt, last.seq
	}
	err = q.run(ctx, false, func(on *pgx.Conn) error {
		rows, err := on.Query(ctx, q.sql.letters, at, seq, int64(page))
		if err != nil {
			return err
		}
		letters, err = pgx.CollectRows(rows, scanLetter)
		return err
	})
	return letters, err
}

func scanLetter(row pgx.CollectableRow) (letter, error) {
	var l letter
	var attempts int64
	var header, code string
	ev := &l.Event
	err := row.Scan(&l.seq, &attempts, &ev.ID, &ev.Type, &ev.Destination, &ev.OrderingKey, &header, &ev.Payload,
		&l.EnqueuedAt, &l.DeadAt, &code, &l.Failure.Reason)
	if err != nil {
		return letter{}, err
	}
	l.Attempts, l.Failure.Code = int(attempts), taxonomy.Code(code)
	ev.Header, err = decodeHeader(header)
	return l, err
}

// Redrive implements [outbox.Backlog].
func (q *Queue) Redrive(ctx context.Context, id string) error {
	return q.onLetter(ctx, q.sql.redrive, id)
}

// Drop implements [outbox.Backlog].
func (q *Queue) Drop(ctx context.Context, id string) error { return q.onLetter(ctx, q.sql.drop, id) }

// onLetter makes a statement that changes the dead letter with the id.
func (q *Queue) onLetter(ctx context.Context, text, id string) error {
	var n int64
	err := q.run(ctx, true, func(on *pgx.Conn) error { return on.QueryRow(ctx, text, id).Scan(&n) })
	if err == nil && n == 0 {
		return fmt.Errorf("%w: %.300q", outbox.ErrNoLetter, id)
	}
	return err
}

// maxAge keeps the instant that Purge computes within what Postgres has.
const maxAge = 100 * 365 * 24 * time.Hour

// Purge implements [outbox.Backlog]. It passes over events that another Purge has locked.
func (q *Queue) Purge(ctx context.Context, age time.Duration, limit int) (int, error) {
	if age < 0 || limit < 1 {
		return 0, fmt.Errorf(
			"pgoutbox: %w: the age is %v and the limit %d, they must not be negative and be positive",
			store.ErrInvalid,
			age,
			limit,
		)
	}
	purged := 0
	err := q.run(ctx, true, func(on *pgx.Conn) error {
		tag, err := on.Exec(ctx, q.sql.purge, micros(min(age, maxAge)), int64(limit))
		purged = int(tag.RowsAffected())
		return err
	})
	if err != nil {
		return 0, err
	}
	return purged, nil
}
