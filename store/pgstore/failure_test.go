package pgstore_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/pgstore/pgtest"
)

// A cutting connection, once armed, lets a write pass, waits for the response, and shows an end of file instead of
// it.
type cutting struct {
	net.Conn
	armed *atomic.Bool
	wrote bool
}

func (c *cutting) Write(p []byte) (int, error) {
	c.wrote = c.armed.Load()
	return c.Conn.Write(p)
}

func (c *cutting) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if c.wrote {
		c.Close()
		return 0, io.EOF
	}
	return n, err
}

func TestWriteWhoseAnswerIsLostIsUnknownAndFindSettlesIt(t *testing.T) {
	for _, mode := range []pgx.QueryExecMode{
		pgx.QueryExecModeCacheStatement, pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol,
	} {
		for name, open := range map[string]func(p place) store.Store{
			" by pgx":          func(p place) store.Store { return p.open(t) },
			" by database/sql": func(p place) store.Store { return p.openSQL(t) },
		} {
			t.Run(mode.String()+name, func(t *testing.T) { answersAreLost(t, mode, open) })
		}
	}
}

func answersAreLost(t *testing.T, mode pgx.QueryExecMode, open func(p place) store.Store) {
	p := newPlace(t)
	p.change = append(p.change, inMode(mode))
	sound := open(p)
	var armed atomic.Bool
	p.conns = 1
	p.change = append(p.change, func(cfg *pgxpool.Config) {
		cfg.ConnConfig.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := (&net.Dialer{}).DialContext(ctx, network, addr)
			return &cutting{Conn: conn, armed: &armed}, err
		}
	})
	st := open(p)
	// The statements are prepared before, so that the lost response is the write's.
	l := reserve(t, st, claim("first"), store.Acquired).Lease
	require.NoError(t, st.Complete(t.Context(), l, store.Outcome{}))
	find(t, st, "first")
	reserve(t, st, claim("second"), store.Acquired) // one that deletes no expired record

	armed.Store(true)
	c := claim("k")
	c.Owner = "owner \x00\xff"
	_, err := st.Reserve(t.Context(), c)
	require.ErrorIs(t, err, store.ErrUnknown)
	armed.Store(false)
	r := find(t, sound, "k")
	g, holds := store.Held(r, c)
	require.True(t, holds)
	require.Equal(t, store.Grant{Verdict: store.Acquired, Lease: r.Lease(), Record: r}, g)
	another := c
	another.Owner = "another"
	_, holds = store.Held(r, another)
	require.False(t, holds)

	require.ErrorIs(t, st.Complete(t.Context(), l, store.Outcome{}), store.ErrLost) // prepares it on the new connection
	find(t, st, "first")
	armed.Store(true)
	require.ErrorIs(t, st.Complete(t.Context(), r.Lease(), store.Outcome{Result: []byte("result")}), store.ErrUnknown)
	armed.Store(false)
	require.Equal(t, []byte("result"), find(t, sound, "k").Result)
	require.Empty(t, find(t, sound, "k").Owner, "the record is settled")

	find(t, st, "first")
	armed.Store(true)
	_, err = st.Find(t.Context(), claim("k").ID)
	require.ErrorIs(t, err, store.ErrUnavailable, "a read whose response is lost has changed nothing")
}

func TestStatementEndedByItsContextLeavesNothingHalfDone(t *testing.T) {
	p := newPlace(t)
	st := p.open(t)
	before := reserve(t, st, claim("k"), store.Acquired)
	conn := pgtest.Connect(t, p.url)
	tx, err := conn.Begin(t.Context())
	require.NoError(t, err)
	defer tx.Rollback(context.WithoutCancel(t.Context()))
	_, err = tx.Exec(t.Context(), "SELECT FROM "+p.table()+" FOR UPDATE")
	require.NoError(t, err)
	waiting := func() bool { return blocks(t, tx) }

	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- st.Complete(ctx, before.Lease, store.Outcome{Result: []byte("result")}) }()
	until(t, "the statement waits for the row", waiting)
	cancel()
	err = <-done
	require.ErrorIs(t, err, store.ErrUnknown, "it was sent")
	require.ErrorIs(t, err, context.Canceled)
	until(t, "the server has given the statement up", func() bool { return !waiting() })
	require.NoError(t, tx.Rollback(t.Context()))
	after := find(t, st, "k")
	require.Equal(t, store.StatePending, after.State)
	require.Equal(t, before.Lease, after.Lease())
	require.NoError(t, st.Complete(t.Context(), before.Lease, store.Outcome{}))
}

// blocks reports whether a session waits for a lock of the transaction.
func blocks(t testing.TB, tx pgx.Tx) bool {
	var n int
	err := tx.QueryRow(t.Context(),
		"SELECT count(*) FROM pg_locks WHERE NOT granted AND pg_backend_pid() = ANY (pg_blocking_pids(pid))").
		Scan(&n)
	return err == nil && n > 0
}

// 64 callers settle their records while the server is killed and started again. Acknowledged writes are there
// afterwards, and no key is acquired twice.
func TestAcknowledgedWritesSurviveAKilledServer(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a new server")
	}
	srv := pgtest.NewServer(t)
	p := place{url: srv.URL, schema: "public", conns: 16}
	st := p.open(t)
	var acknowledged sync.Map // key → fence
	var count, failures atomic.Int64
	restarted := make(chan struct{})
	work := func(key string) error {
		g, err := st.Reserve(t.Context(), claim(key))
		if err == nil && g.Verdict == store.Acquired {
			if err = st.Complete(t.Context(), g.Lease, store.Outcome{Result: []byte(key)}); err == nil {
				acknowledged.Store(key, g.Lease.Fence)
				count.Add(1)
				return nil
			}
		}
		switch {
		case err == nil:
			return fmt.Errorf("the verdict on a new key is %v", g.Verdict)
		case errors.Is(err, store.ErrUnknown), errors.Is(err, store.ErrUnavailable):
			failures.Add(1)
			return nil
		}
		return err
	}
	callers := make(chan error, 1)
	go func() {
		callers <- race(func(i int) error {
			for n, last := 0, -1; last < 0 || n < last; n++ {
				if last < 0 {
					select {
					case <-restarted:
						last = n + 8
					default:
					}
				}
				if err := work(fmt.Sprint(i, " ", n)); err != nil {
					return err
				}
			}
			return nil
		})
	}()
	until(t, "the callers are at work", func() bool { return count.Load() > 500 })
	require.NoError(t, srv.Kill())
	until(t, "calls fail", func() bool { return failures.Load() > 0 })
	require.NoError(t, srv.Restart(t.Context()))
	close(restarted)
	require.NoError(t, <-callers)
	n := 0
	acknowledged.Range(func(key, fence any) bool {
		r, err := st.Find(t.Context(), claim(key.(string)).ID)
		require.NoError(t, err, key)
		require.Equal(t, store.StateComplete, r.State)
		require.Equal(t, fence, r.Fence)
		require.Equal(t, key, string(r.Result))
		n++
		return true
	})
	t.Logf("%d acknowledged outcomes are there, %d calls failed", n, failures.Load())
}
