package pgstore_test

import (
	"context"
	"errors"
	"net"
	"net/url"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/pgstore"
	"github.com/redo-go/redo/store/pgstore/pgtest"
	"github.com/redo-go/redo/store/storetest"
)

// busy makes the pooler open all of its connections, so that it sends the next transactions over different ones.
func busy(t testing.TB, p pgtest.Pooler) {
	t.Helper()
	pool := pgtest.NewPool(t, p.URL("exec"), pgtest.PoolSize)
	var seen []int32
	for range pgtest.PoolSize {
		tx, err := pool.Begin(context.Background())
		require.NoError(t, err)
		defer tx.Rollback(context.Background())
		var pid int32
		require.NoError(t, tx.QueryRow(context.Background(), "SELECT pg_backend_pid()").Scan(&pid))
		require.NotContains(t, seen, pid)
		seen = append(seen, pid)
	}
}

// A prepared statement belongs to one session. Behind a pooler that changes sessions, calls fail with an error that
// names the setting, and nothing is half done.
func TestPreparedStatementsBehindAPoolerAreRefusedByName(t *testing.T) {
	home, b := newPlace(t), pgtest.NewPooler(t, pgtest.URL(t))
	busy(t, b)
	sound := home.open(t)
	codes := map[string]bool{}
	told := func(err error) {
		t.Helper()
		if err == nil {
			return
		}
		require.ErrorIs(t, err, store.ErrUnavailable)
		require.NotErrorIs(t, err, store.ErrUnknown)
		require.ErrorContains(t, err, "default_query_exec_mode=exec")
		var pg *pgconn.PgError
		require.ErrorAs(t, err, &pg)
		codes[pg.Code] = true
	}
	p := pooledCase{home, b, "redo_records"}.by("cache_statement")
	byPgx, err := pgstore.New(pgtest.NewPool(t, p.url, 2), pgstore.WithSchema(p.schema))
	require.NoError(t, err)
	bySQL, err := pgstore.NewSQL(p.db(t), pgstore.WithSchema(p.schema))
	require.NoError(t, err)
	reserved := 0
	for i := 0; i < 200 && len(codes) < 2; i++ {
		for _, st := range []store.Store{byPgx, bySQL} {
			told(st.(store.Checker).Check(t.Context()))
			g, err := st.Reserve(t.Context(), claim("k"))
			told(err)
			if g.Verdict == store.Acquired {
				reserved++
				require.NoError(t, sound.Release(t.Context(), g.Lease))
			}
			absent(t, sound, "k")
		}
		tx, _, err := byPgx.Begin(t.Context(), claim("k"))
		told(err)
		if tx != nil {
			require.NoError(t, tx.Rollback(t.Context()))
		}
		held, _, err := bySQL.Begin(t.Context(), claim("k"))
		told(err)
		if held != nil {
			require.NoError(t, held.Rollback(t.Context()))
		}
	}
	require.Equal(
		t,
		map[string]bool{"26000": true, "42P05": true},
		codes,
		"a statement is missing here, and one is in the way there",
	)
	t.Logf("%d reservations went through", reserved)
}

// When a process dies with a transaction open the pooler gives that up, and with it the ID.
func TestTransactionOfADeadProcessBehindAPoolerIsRolledBack(t *testing.T) {
	home, b := newPlace(t), pgtest.NewPooler(t, pgtest.URL(t))
	p := pooledCase{home, b, "redo_records"}.by(byExec)
	st := p.open(t)
	var conns []net.Conn
	dying := p
	dying.conns = 1
	dying.change = []func(*pgxpool.Config){func(cfg *pgxpool.Config) {
		cfg.ConnConfig.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := (&net.Dialer{}).DialContext(ctx, network, addr)
			conns = append(conns, conn)
			return conn, err
		}
	}}
	tx, g := begin(t, dying.open(t), claim("k"), store.Acquired)
	begin(t, st, claim("k"), store.InFlight)
	for _, conn := range conns {
		require.NoError(t, conn.Close())
	}
	var next store.Grant
	until(t, "the ID is free", func() bool {
		var again store.Tx[pgx.Tx]
		again, next, _ = st.Begin(t.Context(), claim("k"))
		return again != nil && again.Commit(t.Context(), store.Outcome{Result: []byte("next")}) == nil
	})
	require.Equal(t, store.Acquired, next.Verdict)
	require.Greater(t, next.Lease.Fence, g.Lease.Fence)
	err := tx.Commit(t.Context(), store.Outcome{Result: []byte("dead")})
	require.True(t, errors.Is(err, store.ErrUnavailable) || errors.Is(err, store.ErrUnknown), "%v", err)
	require.Equal(t, []byte("next"), find(t, st, "k").Result)
}

// A pooler whose connections are all held keeps further calls waiting. Their contexts end that, and a transaction that
// was not begun is not in the way later.
func TestCallsWaitForThePoolersConnections(t *testing.T) {
	home, b := newPlace(t), pgtest.NewPooler(t, pgtest.URL(t))
	p := pooledCase{home, b, "redo_records"}.by(byExec)
	st, beside := p.open(t), p.open(t)
	var held []store.Tx[pgx.Tx]
	for i := range pgtest.PoolSize {
		tx, _ := begin(t, st, claim(string(rune('a'+i))), store.Acquired)
		held = append(held, tx)
	}
	begin(t, st, claim("a"), store.InFlight) // from memory
	ctx, cancel := context.WithCancel(t.Context())
	waits := make(chan error, 1)
	go func() {
		_, _, err := beside.Begin(ctx, claim("a"))
		waits <- err
	}()
	until(t, "the call waits in the pooler", func() bool { return b.Waiting(t) == 1 })
	cancel()
	require.ErrorIs(t, <-waits, context.Canceled)
	for _, tx := range held {
		require.NoError(t, tx.Commit(t.Context(), store.Outcome{}))
	}
	begin(t, beside, claim("a"), store.Complete)
}

// The server may commit and then fail, before its response reaches the pooler. The pooler responds with an error of its
// own, which proves nothing about the commit.
func TestCommitWhoseResponseDoesNotReachThePoolerIsUnknown(t *testing.T) {
	for _, mode := range []string{byExec, bySimple} {
		home := newPlace(t)
		server, err := url.Parse(home.url)
		require.NoError(t, err)
		proxy := storetest.NewProxy(t, server.Host)
		server.Host = proxy.Addr()
		b := pgtest.NewPooler(t, server.String())
		p := pooledCase{home, b, "redo_records"}.by(mode)
		p.conns = 1
		sound, st := home.open(t), p.open(t)
		tx, g, err := st.Begin(t.Context(), unleased("k"))
		require.NoError(t, err)
		heal := proxy.Inject(storetest.ResponseLost)
		err = tx.Commit(t.Context(), store.Outcome{Result: []byte("result")})
		heal()
		require.ErrorIs(t, err, store.ErrUnknown, mode)
		require.NotErrorIs(t, err, store.ErrUnavailable, mode)
		until(t, "the commit is visible", func() bool {
			r, err := sound.Find(t.Context(), g.Lease.ID)
			return err == nil && r.State == store.StateComplete && r.Fence == g.Lease.Fence
		})
	}
}
