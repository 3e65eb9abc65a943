package pgoutbox

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/redo-go/redo/outbox"
	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/pgstore/pgtable"
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
	pool   *pgxpool.Pool
	table  pgtable.Table
	silent bool
	sql    statements
}

type statements struct {
	enqueue, claim, park, unpark, extend, stats, letters, redrive, drop, purge string
	settle                                                                     map[outbox.Result]string
}

// New returns a Queue over a pool, which the caller closes. It does not connect: call Migrate or Check before the first
// event is enqueued. A relay uses one connection for each worker that settles or renews, and one beside the pool to
// listen.
func New(pool *pgxpool.Pool, opts ...Option) (*Queue, error) {
	if pool == nil {
		return nil, fmt.Errorf("pgoutbox: %w: the pool is nil", store.ErrInvalid)
	}
	cfg, err := newConfig(opts)
	if err != nil {
		return nil, err
	}
	t := cfg.events()
	count := "seq"
	if !cfg.silent {
		count = "pg_notify(" + pgtable.Literal(channel(t)) + ", '')"
	}
	fill := func(text string) string { return t.Fill(strings.ReplaceAll(text, "{count}", count)) }
	settle := func(outcome string) string { return fill(strings.ReplaceAll(settleSQL, "{outcome}", outcome)) }
	return &Queue{pool: pool, table: t, silent: cfg.silent, sql: statements{
		enqueue: fill(
			enqueueSQL,
		),
		claim:  fill(claimSQL),
		park:   fill(parkSQL),
		unpark: fill(unparkSQL),
		extend: fill(extendSQL),
		stats: fill(
			statsSQL,
		),
		letters: fill(lettersSQL),
		redrive: fill(redriveSQL),
		drop:    fill(dropSQL),
		purge:   fill(purgeSQL),
		settle: map[outbox.Result]string{
			outbox.Sent: settle(
				sentSQL,
			),
			outbox.Dead:     settle(deadSQL),
			outbox.Waiting:  settle(waitingSQL),
			outbox.Released: settle(releasedSQL),
		},
	}}, nil
}

// channel returns the name that relays listen to.
func channel(t pgtable.Table) string { return fmt.Sprintf("redo_outbox_%016x", t.Hash()) }

// run calls f, which sends one statement, and repeats it as pgtable.Do does. writes means that it may change something.
func (q *Queue) run(ctx context.Context, writes bool, f func(on *pgx.Conn) error) error {
	return q.table.Run(ctx, pgtable.Pool(q.pool), writes, func(on *pgx.Conn) error { return q.orRace(f(on)) })
}

// orRace marks the error of a claim that met another claim of the same ordering key.
func (q *Queue) orRace(err error) error {
	if pg, ok := errors.AsType[*pgconn.PgError](
		err,
	); ok && pg.Code == uniqueViolation &&
		pg.ConstraintName == q.table.Name+"_busy" {
		return fmt.Errorf("%w: %w", pgtable.ErrRace, err)
	}
	return err
}

const uniqueViolation = "23505" // SQLSTATE, from appendix A of the Postgres manual

// Enqueue writes the event in the caller's transaction, in one statement, and returns its id. The event is delivered
// after the transaction has committed.
//
// It returns outbox.ErrDuplicate if the queue has an event with the id. If another transaction is enqueuing one,
// Enqueue waits for it first. It returns store.ErrInvalid for an event that breaks a rule of [outbox.Event]. After
// these two errors nothing was written, and the transaction can go on. After any other error it must be rolled back.
func (q *Queue) Enqueue(ctx context.Context, tx pgx.Tx, ev outbox.Event) (string, error) {
	if tx == nil {
		return "", fmt.Errorf("pgoutbox: %w: the transaction is nil", store.ErrInvalid)
	}
	return q.enqueue(ctx, ev, func(args ...any) (n int64, err error) {
		err = tx.QueryRow(ctx, q.sql.enqueue, args...).Scan(&n)
		return n, err
	})
}

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
	return q.run(ctx, true, func(on *pgx.Conn) error {
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
	settle := q.settle
	if o.Result == outbox.Sent || o.Result == outbox.Dead {
		settle = q.finish // makes room for the next of its key
	}
	return q.run(ctx, true, func(on *pgx.Conn) error { return settle(ctx, on, q.sql.settle[o.Result], args) })
}

func (q *Queue) settle(ctx context.Context, on *pgx.Conn, text string, args []any) error {
	tag, err := on.Exec(ctx, text, args...)
	return orLost(tag.RowsAffected(), err)
}

// finish settles an event that waits no longer and unparks the next of its key, in one round trip.
func (q *Queue) finish(ctx context.Context, on *pgx.Conn, text string, args []any) error {
	var b pgx.Batch
	b.BeginTx(pgx.TxOptions{IsoLevel: pgx.ReadCommitted}) // whatever the default is: see unparkSQL
	b.Queue(text, args...)
	b.Queue(q.sql.unpark, args[0])
	b.Queue("COMMIT")
	sent := on.SendBatch(ctx, &b)
	_, err := sent.Exec()
	var tag pgconn.CommandTag
	if err == nil {
		tag, err = sent.Exec()
	}
	if end := sent.Close(); err == nil {
		err = end
	}
	if err != nil {
		_ = sent.Tx().Rollback(ctx) // a connection that can't roll back is closed by it
	}
	return orLost(tag.RowsAffected(), err)
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
