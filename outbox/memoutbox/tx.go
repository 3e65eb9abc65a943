package memoutbox

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/redo-go/redo/outbox"
)

// ErrTxEnded reports the use of a transaction after its Commit or Rollback.
var ErrTxEnded = errors.New("memoutbox: the transaction has ended")

// A Tx is a transaction of a Queue. Its events become visible with Commit.
type Tx struct {
	queue *Queue
	rows  []*row
	names map[name]bool
	ended bool
}

// Begin opens a transaction. A transaction that is not ended costs nothing but its memory.
func (q *Queue) Begin() *Tx { return &Tx{queue: q, names: map[name]bool{}} }

// Enqueue adds the event to the transaction and returns its id.
func (q *Queue) Enqueue(ctx context.Context, tx *Tx, ev outbox.Event) (string, error) {
	ids, err := q.EnqueueBatch(ctx, tx, []outbox.Event{ev})
	if err != nil {
		return "", err
	}
	return ids[0], nil
}

// EnqueueBatch adds the events to the transaction and returns their ids in the same order. With an error it adds none.
func (q *Queue) EnqueueBatch(ctx context.Context, tx *Tx, evs []outbox.Event) ([]string, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if tx == nil || tx.queue != q {
		return nil, errors.New("memoutbox: the transaction is of another queue")
	}
	evs, ids, err := outbox.PrepareBatch(evs)
	if err != nil {
		return nil, err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if tx.ended {
		return nil, ErrTxEnded
	}
	for _, ev := range evs {
		if n := nameOf(ev); q.names[n] != nil || tx.names[n] {
			return nil, fmt.Errorf("%w: %q", outbox.ErrDuplicate, ev.ID)
		}
	}
	now := time.Now()
	for _, ev := range evs {
		ev.Payload = slices.Clone(ev.Payload)
		q.seq++
		tx.rows = append(tx.rows, &row{seq: q.seq, event: ev, enqueued: now, due: now})
		tx.names[nameOf(ev)] = true
	}
	return ids, nil
}

// Commit makes the transaction's events visible. It returns outbox.ErrDuplicate and commits none of them if another
// transaction has committed one of their ids for the same destination meanwhile.
func (tx *Tx) Commit() error {
	q := tx.queue
	q.mu.Lock()
	defer q.unlock()
	if tx.ended {
		return ErrTxEnded
	}
	tx.ended = true
	for _, r := range tx.rows {
		if q.names[nameOf(r.event)] != nil {
			return fmt.Errorf("%w: %q", outbox.ErrDuplicate, r.event.ID)
		}
	}
	for _, r := range tx.rows {
		q.rows[r.seq], q.names[nameOf(r.event)] = r, r
		q.wait(r)
		q.wakes = true
	}
	return nil
}

// Rollback discards the transaction's events. After Commit or Rollback it does nothing and returns ErrTxEnded.
func (tx *Tx) Rollback() error {
	tx.queue.mu.Lock()
	defer tx.queue.mu.Unlock()
	if tx.ended {
		return ErrTxEnded
	}
	tx.ended, tx.rows = true, nil
	return nil
}

// Append implements [outbox.Queue].
func (q *Queue) Append(ctx context.Context, events ...outbox.Event) error {
	tx := q.Begin()
	if _, err := q.EnqueueBatch(ctx, tx, events); err != nil {
		return err
	}
	return tx.Commit()
}
