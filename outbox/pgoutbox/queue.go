package pgoutbox

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
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

// A Queue is an outbox in tables of one Postgres schema. Create one with [New]. All methods may be called concurrently,
// and any number of Queues, in any number of processes, may use the same tables. It needs no Close: the pool is the
// caller's.
type Queue struct {
	pool    *pgxpool.Pool
	table   pgtable.Table
	silent  bool
	sql     statements
	notices notices
	now     func() time.Time // the clock of this process
	jam     jam
	many    atomic.Bool  // the last events were not of the kind that fewSQL claims
	swept   atomic.Int64 // when this process last looked for all expired leases, in Unix nanoseconds
	purged  atomic.Int64 // the place in the log at which the next Purge begins
}

type statements struct {
	enqueue, enqueueNotify                         string
	batch, batchJSON                               batchTexts
	few, log, look, late, readyLines, lines, sweep string
	extend, settle                                 string
	disable, enable, disabled                      string
	stats, dead, passed, unread                    string
	redrive, drop, purge, notify                   string
}

// New returns a Queue over a pool, which the caller closes. It does not connect: call Migrate or Check before the first
// event is enqueued. A relay uses a connection for each of its calls, and one beside the pool to listen.
func New(pool *pgxpool.Pool, opts ...Option) (*Queue, error) {
	if pool == nil {
		return nil, fmt.Errorf("pgoutbox: %w: the pool is nil", store.ErrInvalid)
	}
	cfg, err := newConfig(opts)
	if err != nil {
		return nil, err
	}
	t := cfg.events()
	notify := "true"
	if !cfg.silent {
		notify = "pg_notify(" + pgtable.Literal(channel(t)) + ", '') IS NOT NULL"
	}
	variables := strings.NewReplacer("{notify}", notify, "{history}", strconv.Itoa(outbox.MaxHistory))
	fill := func(text string) string { return t.Fill(variables.Replace(text)) }
	batch := func(given string) batchTexts {
		with := func(text string) string { return fill(strings.ReplaceAll(text, "{given}", given)) }
		return batchTexts{enqueue: with(enqueueBatchSQL), undo: with(undoBatchSQL)}
	}
	q := &Queue{pool: pool, table: t, silent: cfg.silent, now: time.Now, sql: statements{
		enqueue: fill(enqueueSQL + "true"), enqueueNotify: fill(enqueueSQL + "{notify}"),
		batch: batch(givenArraysSQL), batchJSON: batch(givenJSONSQL),
		few: fill(fewSQL), log: fill(logSQL), late: fill(lateSQL), readyLines: fill(readyLinesSQL),
		look: fill(lookSQL), lines: fill(linesSQL),
		sweep: fill(sweepSQL), extend: fill(extendSQL), settle: fill(settleSQL),
		disable: fill(disableSQL), enable: fill(enableSQL), disabled: fill(disabledSQL),
		stats: fill(statsSQL), dead: fill(deadSQL), passed: fill(passedSQL), unread: fill(unreadSQL),
		redrive: fill(redriveSQL), drop: fill(dropSQL), purge: fill(purgeSQL), notify: fill("SELECT {notify}"),
	}}
	if !cfg.silent {
		q.notices.send = func(ctx context.Context) { _, _ = pool.Exec(ctx, q.sql.notify) } // relays poll as well
	}
	return q, nil
}

// channel returns the name that relays listen to.
func channel(t pgtable.Table) string { return fmt.Sprintf("redo_outbox_%016x", t.Hash()) }

// run calls f, which sends one statement or one transaction, and repeats it as pgtable.Do does. writes means that it
// may change something.
func (q *Queue) run(ctx context.Context, writes bool, f func(on *pgx.Conn) error) error {
	return q.table.Run(ctx, pgtable.Pool(q.pool), writes, f)
}

// micros rounds up: a wait is never shortened.
func micros(d time.Duration) int64 { return int64((d + time.Microsecond - 1) / time.Microsecond) }
