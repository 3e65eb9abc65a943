package pgoutbox_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/internal/racetest"
	"github.com/redo-go/redo/outbox"
	"github.com/redo-go/redo/outbox/outboxtest"
	"github.com/redo-go/redo/outbox/pgoutbox"
	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/pgstore/pgtest"
)

// Each queue of a case speaks in another way, and they share the few connections of one pooler.
func TestContractBehindAPooler(t *testing.T) {
	racetest.Repeats(t)
	t.Parallel()
	home, b := newPlace(t), pgtest.NewPooler(t, pgtest.URL(t))
	var cases atomic.Int64
	for name, begin := range map[string]func(*testing.T, *pgoutbox.Queue, *pgxpool.Pool) outboxtest.Tx{
		"pgx": beginPGX, "database/sql": beginSQL,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			type backend struct {
				table string
				pool  *pgxpool.Pool
			}
			backends := map[outboxtest.Queue]backend{}
			at := func(t *testing.T, table, mode string) outboxtest.Queue {
				p := place{url: b.URL(mode), schema: home.schema}
				q, pool := p.open(t, pgoutbox.WithTable(table), pgoutbox.WithoutNotify())
				st := silent{q}
				backends[st] = backend{table, pool}
				return st
			}
			outboxtest.Run(t, outboxtest.Harness{
				Open: func(t *testing.T) outboxtest.Queue { return at(t, fmt.Sprint("case ", cases.Add(1)), "exec") },
				Beside: func(t *testing.T, first outboxtest.Queue) outboxtest.Queue {
					return at(t, backends[first].table, "simple_protocol")
				},
				Begin: func(t *testing.T, q outboxtest.Queue) outboxtest.Tx {
					return begin(t, q.(silent).Queue.(*pgoutbox.Queue), backends[q].pool)
				},
			})
		})
	}
}

// A silent queue is no outbox.Watcher to the suite: it wakes no relay.
type silent struct{ outboxtest.Queue }

// LISTEN does not work through a pooler in transaction mode. Relays poll, with WithoutNotify and without.
func TestRelaysPollBehindAPooler(t *testing.T) {
	b := pgtest.NewPooler(t, pgtest.URL(t))
	for name, opts := range map[string][]pgoutbox.Option{
		"WithoutNotify": {pgoutbox.WithoutNotify()}, "by default": nil,
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t)
			p.url = b.URL("exec")
			q, pool := p.open(t, opts...)
			ctx, cancel := context.WithCancel(t.Context())
			var relays sync.WaitGroup
			defer relays.Wait()
			defer cancel()
			came := make(chan string, 1)
			for range 2 {
				beside, _ := p.open(t, opts...)
				r, err := outbox.NewRelay(
					beside,
					outbox.PublisherFunc(func(ctx context.Context, ev outbox.Event) error {
						came <- ev.ID
						return nil
					}),
					outbox.PollInterval(20*time.Millisecond),
				)
				require.NoError(t, err)
				relays.Go(func() { _ = r.Run(ctx) })
			}
			for i := range 20 {
				id := fmt.Sprint("event-", i)
				tx := beginPGX(t, q, pool)
				_, err := tx.Enqueue(t.Context(), keyed(id, "key"))
				require.NoError(t, err)
				require.NoError(t, tx.Commit(t.Context()))
				select {
				case got := <-came:
					require.Equal(t, id, got)
				case <-time.After(time.Minute):
					require.Fail(t, "nothing was delivered", id)
				}
			}
		})
	}
}

// Prepared statements behind a pooler that keeps none are refused. The error names the setting that helps.
func TestPreparedStatementsBehindAPoolerAreRefusedByName(t *testing.T) {
	p, b := newPlace(t), pgtest.NewPooler(t, pgtest.URL(t))
	p.open(t)
	// The pooler opens all of its connections, so that the next statement meets another one.
	p.url = b.URL("exec")
	pool := p.pool(t)
	var open []pgx.Tx
	for range pgtest.PoolSize {
		tx, err := pool.Begin(t.Context())
		require.NoError(t, err)
		open = append(open, tx)
	}
	for _, tx := range open {
		require.NoError(t, tx.Rollback(t.Context()))
	}

	p.url = b.URL("cache_statement")
	codes := map[string]bool{}
	for i := 0; i < 200 && len(codes) < 2; i++ {
		own := p.pool(t)
		q, err := pgoutbox.New(own, pgoutbox.WithSchema(p.schema), pgoutbox.WithoutNotify())
		require.NoError(t, err)
		_, claimed := q.Claim(t.Context(), outbox.Claim{Max: 1, Lease: time.Hour})
		for _, err := range []error{q.Check(t.Context()), claimed} {
			if err == nil {
				continue
			}
			require.ErrorIs(t, err, store.ErrUnavailable)
			require.ErrorContains(t, err, "default_query_exec_mode=exec")
			var pg *pgconn.PgError
			require.ErrorAs(t, err, &pg)
			codes[pg.Code] = true
		}
		own.Close() // the next one prepares anew, and meets the statements of this one
	}
	require.Equal(
		t,
		map[string]bool{"26000": true, "42P05": true},
		codes,
		"a statement is missing here, and one is in the way there",
	)
}
