package pgoutbox

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/redo-go/redo/outbox"
	"github.com/redo-go/redo/store"
)

// Interfaces that a Queue implements.
var (
	_ outbox.Queue   = (*Queue)(nil)
	_ outbox.Backlog = (*Queue)(nil)
	_ outbox.Watcher = (*Queue)(nil)
)

// A Queue is an outbox in one table. Create one with [New]. All methods may be called concurrently, and any number of
// Queues, in any number of processes, may use one table. It needs no Close: the pool is the caller's.
type Queue struct {
	config
	pool *pgxpool.Pool
	sql  statements
}

type statements struct {
	enqueue, claim, extend, stats, letters, redrive, drop, purge string
	settle                                                       map[outbox.Result]string
}

// New returns a Queue over a pool, which stays the caller's to close. It connects to nothing: call Migrate or Check before
// the first event is enqueued. A relay uses one connection for each of its workers that settles or renews, and one beside
// the pool to listen on.
func New(pool *pgxpool.Pool, opts ...Option) (*Queue, error) {
	if pool == nil {
		return nil, fmt.Errorf("pgoutbox: %w: the pool is nil", store.ErrInvalid)
	}
	cfg, err := newConfig(opts)
	if err != nil {
		return nil, err
	}
	told := toldSQL
	if cfg.silent {
		told = untoldSQL
	}
	fill := func(text string) string { return cfg.replacer().Replace(strings.ReplaceAll(text, "{told}", told)) }
	settle := func(outcome, others string) string {
		return fill(strings.NewReplacer("{outcome}", outcome, "{others}", others).Replace(settleSQL))
	}
	return &Queue{config: cfg, pool: pool, sql: statements{
		enqueue: fill(enqueueSQL), claim: fill(claimSQL), extend: fill(extendSQL), stats: fill(statsSQL), letters: fill(lettersSQL),
		redrive: fill(redriveSQL), drop: fill(dropSQL), purge: fill(purgeSQL),
		settle: map[outbox.Result]string{
			outbox.Sent: settle(sentSQL, nextSQL), outbox.Dead: settle(deadSQL, nextSQL),
			outbox.Waiting: settle(waitingSQL, restSQL), outbox.Released: settle(releasedSQL, nextSQL),
		},
	}}, nil
}

// Enqueue writes the event in the caller's transaction, in one statement, and returns its id. When the transaction is
// committed the event is delivered, and otherwise it was never there. It returns outbox.ErrDuplicate when the queue has an
// event with the id, after waiting for another transaction that is about to enqueue one, and store.ErrInvalid for an event
// that breaks a rule of [outbox.Event]; nothing was written then, and the transaction can go on. After any other error it
// has to be rolled back.
func (q *Queue) Enqueue(ctx context.Context, tx pgx.Tx, ev outbox.Event) (string, error) {
	if tx == nil {
		return "", fmt.Errorf("pgoutbox: %w: the transaction is nil", store.ErrInvalid)
	}
	return q.enqueue(ctx, ev, func(args ...any) (n int64, err error) {
		err = tx.QueryRow(ctx, q.sql.enqueue, args...).Scan(&n)
		return n, err
	})
}

// EnqueueSQL is Enqueue for a transaction of database/sql, of whichever Postgres driver.
func (q *Queue) EnqueueSQL(ctx context.Context, tx *sql.Tx, ev outbox.Event) (string, error) {
	if tx == nil {
		return "", fmt.Errorf("pgoutbox: %w: the transaction is nil", store.ErrInvalid)
	}
	return q.enqueue(ctx, ev, func(args ...any) (n int64, err error) {
		err = tx.QueryRowContext(ctx, q.sql.enqueue, args...).Scan(&n)
		return n, err
	})
}

func (q *Queue) enqueue(ctx context.Context, ev outbox.Event, insert func(args ...any) (int64, error)) (string, error) {
	if err := ctx.Err(); err != nil {
		return "", err
	}
	ev, err := outbox.Prepare(ev)
	if err != nil {
		return "", err
	}
	header := []byte("{}")
	if ev.Header != nil {
		if header, err = json.Marshal(ev.Header); err != nil {
			return "", fmt.Errorf("pgoutbox: %w", err)
		}
	}
	payload := ev.Payload
	if payload == nil {
		payload = []byte{}
	}
	n, err := insert(ev.ID, ev.Type, ev.Destination, ev.OrderingKey, string(header), payload)
	switch {
	case err != nil:
		return "", fmt.Errorf("pgoutbox: enqueue: %w", err)
	case n == 0:
		return "", fmt.Errorf("%w: %q", outbox.ErrDuplicate, ev.ID)
	}
	return ev.ID, nil
}

// Claim implements [outbox.Queue], in one statement unless two claims meet at an ordering key.
func (q *Queue) Claim(ctx context.Context, c outbox.Claim) ([]outbox.Delivery, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	var found []claimed
	err := q.run(ctx, true, func(on *pgxpool.Conn) error {
		rows, err := on.Query(ctx, q.sql.claim, int64(c.Max), micros(c.Lease), c.HoldKeys)
		if err != nil {
			return err
		}
		found, err = pgx.CollectRows(rows, scanClaimed)
		return err
	})
	if err != nil {
		return nil, err
	}
	// What an UPDATE returns has no order.
	slices.SortFunc(found, func(a, b claimed) int {
		return cmp.Or(a.due.Compare(b.due), cmp.Compare(a.delivery.Lease.Seq, b.delivery.Lease.Seq))
	})
	var ds []outbox.Delivery
	for _, f := range found {
		ds = append(ds, f.delivery)
	}
	return ds, nil
}

type claimed struct {
	delivery outbox.Delivery
	due      time.Time
}

func scanClaimed(row pgx.CollectableRow) (claimed, error) {
	var c claimed
	var seq, fence, attempts, age, tried int64
	var header string
	ev := &c.delivery.Event
	err := row.Scan(&seq, &fence, &attempts, &ev.ID, &ev.Type, &ev.Destination, &ev.OrderingKey, &header, &ev.Payload, &c.due, &age, &tried)
	if err != nil {
		return claimed{}, err
	}
	c.delivery.Lease = outbox.Lease{Seq: uint64(seq), Fence: uint64(fence)}
	c.delivery.Attempt = int(attempts)
	c.delivery.Age = max(0, time.Duration(age)*time.Microsecond)
	c.delivery.Tried = max(0, time.Duration(tried)*time.Microsecond)
	ev.Header, err = decodeHeader(header)
	return c, err
}

func decodeHeader(text string) (http.Header, error) {
	if text == "{}" {
		return nil, nil
	}
	var h http.Header
	if err := json.Unmarshal([]byte(text), &h); err != nil {
		return nil, fmt.Errorf("pgoutbox: a header can't be read: %w", err)
	}
	return h, nil
}

// Extend implements [outbox.Queue].
func (q *Queue) Extend(ctx context.Context, l outbox.Lease, d time.Duration) error {
	if err := outbox.CheckLease(d); err != nil {
		return err
	}
	return q.run(ctx, true, func(on *pgxpool.Conn) error {
		tag, err := on.Exec(ctx, q.sql.extend, int64(l.Seq), int64(l.Fence), micros(d))
		return orLost(tag.RowsAffected(), err)
	})
}

// Settle implements [outbox.Queue].
func (q *Queue) Settle(ctx context.Context, l outbox.Lease, o outbox.Outcome) error {
	if err := o.Validate(); err != nil {
		return err
	}
	args := []any{int64(l.Seq), int64(l.Fence)}
	switch o.Result {
	case outbox.Waiting:
		args = append(args, micros(o.Wait), string(o.Failure.Code), o.Failure.Reason)
	case outbox.Dead:
		args = append(args, string(o.Failure.Code), o.Failure.Reason)
	}
	return q.run(ctx, true, func(on *pgxpool.Conn) error {
		var n int64
		err := on.QueryRow(ctx, q.sql.settle[o.Result], args...).Scan(&n)
		return orLost(n, err)
	})
}

// orLost is store.ErrLost when a statement without an error has changed nothing.
func orLost(changed int64, err error) error {
	if err == nil && changed == 0 {
		return fmt.Errorf("pgoutbox: %w", store.ErrLost)
	}
	return err
}

// micros rounds up: a wait is never shortened.
func micros(d time.Duration) int64 { return int64((d + time.Microsecond - 1) / time.Microsecond) }
