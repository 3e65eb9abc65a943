package boltoutbox

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/redo-go/redo/outbox"
	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/boltstore"
)

// Stats implements [outbox.Backlog].
func (q *Queue) Stats(ctx context.Context) (outbox.Stats, error) {
	var st outbox.Stats
	err := q.view(ctx, func(f *file) error {
		c, err := f.counts()
		if err != nil {
			return err
		}
		st.Waiting, st.Dead = int(c.waiting), int(c.dead)
		k, _ := f.waiting.Cursor().First()
		if k == nil {
			return nil
		}
		seq, err := parseSeq(k)
		if err != nil {
			return err
		}
		s, err := f.state(seq)
		st.Oldest = max(0, time.Duration(time.Now().UnixNano()-s.enqueued))
		return err
	})
	if err != nil {
		return outbox.Stats{}, err
	}
	return st, nil
}

// page is the number of dead letters that one transaction reads.
const page = 100

// DeadLetters implements [outbox.Backlog].
func (q *Queue) DeadLetters(ctx context.Context) iter.Seq2[outbox.DeadLetter, error] {
	return func(yield func(outbox.DeadLetter, error) bool) {
		var after []byte
		for {
			letters, last, err := q.letters(ctx, after)
			if err != nil {
				yield(outbox.DeadLetter{}, err)
				return
			}
			for _, l := range letters {
				if !yield(l, nil) {
					return
				}
			}
			if len(letters) < page {
				return
			}
			after = last
		}
	}
}

// letters returns the page of dead letters after the index key.
func (q *Queue) letters(ctx context.Context, after []byte) (letters []outbox.DeadLetter, last []byte, err error) {
	err = q.view(ctx, func(f *file) error {
		c := f.dead.Cursor()
		k, _ := c.Seek(after)
		if after != nil && bytes.Equal(k, after) {
			k, _ = c.Next()
		}
		for ; k != nil && len(letters) < page; k, _ = c.Next() {
			p, err := parsePlace(k)
			if err != nil {
				return err
			}
			s, err := f.state(p.seq)
			if err != nil {
				return err
			}
			ev, err := f.event(p.seq)
			if err != nil {
				return err
			}
			last = bytes.Clone(k)
			letters = append(letters, outbox.DeadLetter{
				Event: ev, EnqueuedAt: time.Unix(0, s.enqueued), DeadAt: time.Unix(0, s.done),
				Attempts: int(s.attempts), Failure: s.failure,
			})
		}
		return nil
	})
	return letters, last, err
}

// Redrive implements [outbox.Backlog].
func (q *Queue) Redrive(ctx context.Context, id string) error {
	return q.change(ctx, func(f *file, now int64) error { return f.revive(id, now) })
}

// Drop implements [outbox.Backlog].
func (q *Queue) Drop(ctx context.Context, id string) error {
	return q.change(ctx, func(f *file, _ int64) error { return f.drop(id) })
}

// Purge implements [outbox.Backlog].
func (q *Queue) Purge(ctx context.Context, age time.Duration, limit int) (int, error) {
	if age < 0 || limit < 1 {
		return 0, fmt.Errorf("boltoutbox: %w: the age is %v and the limit %d, they must not be negative and be positive",
			store.ErrInvalid, age, limit)
	}
	purged := 0
	err := q.change(ctx, func(f *file, now int64) (err error) {
		purged, err = f.purge(now-int64(min(age, time.Duration(now))), limit)
		return err
	})
	if err != nil {
		return 0, err
	}
	return purged, nil
}

func (q *Queue) view(ctx context.Context, f func(*file) error) error {
	err := q.st.View(ctx, func(tx *boltstore.Tx) error {
		opened, err := q.open(tx)
		if err != nil {
			return err
		}
		return f(opened)
	})
	if err != nil && ctx.Err() == nil {
		return explain(err)
	}
	return err
}
