package memoutbox

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/redo-go/redo/outbox"
	"github.com/redo-go/redo/store"
)

// Stats implements [outbox.Backlog].
func (q *Queue) Stats(ctx context.Context) (st outbox.Stats, err error) {
	if err := ctx.Err(); err != nil {
		return st, err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	now := time.Now()
	for _, r := range q.rows {
		switch {
		case r.sent:
		case !r.died.IsZero():
			st.Dead++
		default:
			st.Waiting++
			st.Oldest = max(st.Oldest, now.Sub(r.enqueued))
		}
	}
	return st, nil
}

// Events implements [outbox.Backlog]. It lists one instant of the queue.
func (q *Queue) Events(ctx context.Context, s outbox.Selection) iter.Seq2[outbox.Entry, error] {
	return func(yield func(outbox.Entry, error) bool) {
		for _, e := range q.entries(s) {
			if err := ctx.Err(); err != nil {
				yield(outbox.Entry{}, err)
				return
			}
			if !yield(e, nil) {
				return
			}
		}
	}
}

func (q *Queue) entries(s outbox.Selection) (found []outbox.Entry) {
	q.mu.Lock()
	defer q.mu.Unlock()
	rows := make([]*row, 0, len(q.rows))
	for _, r := range q.rows {
		if !r.sent {
			rows = append(rows, r)
		}
	}
	slices.SortFunc(rows, func(a, b *row) int {
		switch {
		case a.died.IsZero() != b.died.IsZero():
			return cmp.Compare(b.died.Unix(), a.died.Unix())
		default:
			return cmp.Or(a.died.Compare(b.died), bySeq(a, b))
		}
	})
	for _, r := range rows {
		e := outbox.Entry{
			Event: r.event, State: outbox.StateWaiting, EnqueuedAt: r.enqueued, DueAt: r.due, DeadAt: r.died,
			Attempts: r.attempts, History: slices.Clone(r.history),
		}
		e.Event.Header, e.Event.Payload = r.event.Header.Clone(), slices.Clone(r.event.Payload)
		if !r.died.IsZero() {
			e.State, e.DueAt = outbox.StateDead, time.Time{}
		}
		if s.Matches(e) {
			found = append(found, e)
		}
	}
	return found
}

// Redrive implements [outbox.Backlog].
func (q *Queue) Redrive(ctx context.Context, id, destination string) error {
	return q.letter(ctx, id, destination, func(r *row) {
		r.due, r.attempts = time.Now(), 0
		q.wait(r)
		q.wakes = true
	})
}

// Drop implements [outbox.Backlog].
func (q *Queue) Drop(ctx context.Context, id, destination string) error {
	return q.letter(ctx, id, destination, func(r *row) {
		q.delete(r)
		q.wakes = true // a held line goes on
	})
}

// letter removes a dead letter from its line and then calls f with it.
func (q *Queue) letter(ctx context.Context, id, destination string, f func(*row)) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	q.mu.Lock()
	defer q.unlock()
	r := q.names[name{id, destination}]
	if r == nil || r.died.IsZero() {
		return outbox.ErrNoLetter
	}
	r.died = time.Time{}
	l := q.line(r)
	l.dead = remove(l.dead, r)
	f(r)
	q.forget(l)
	return nil
}

func (q *Queue) delete(r *row) {
	delete(q.rows, r.seq)
	delete(q.names, nameOf(r.event))
}

// Purge implements [outbox.Backlog].
func (q *Queue) Purge(ctx context.Context, age time.Duration, limit int) (n int, err error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	if age < 0 || limit < 1 {
		return 0, fmt.Errorf("memoutbox: %w: purge of at most %d events older than %v", store.ErrInvalid, limit, age)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	now := time.Now()
	for _, r := range q.rows {
		if n == limit {
			break
		}
		if r.sent && now.Sub(r.enqueued) > age {
			q.delete(r)
			n++
		}
	}
	return n, nil
}
