package mysqlstore_test

import (
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/mysqlstore"
	"github.com/redo-go/redo/store/mysqlstore/mysqltest"
	"github.com/redo-go/redo/store/sqltx"
)

// onALine is a store on a separate line, with one connection, which is set up.
func onALine(t *testing.T) (place, *mysqlstore.Store, *line) {
	t.Helper()
	l := &line{}
	p := newPlace(t, mysqltest.DSN(t))
	p.conns = 1
	st := places{}.open(t, p, l.through(t))
	p.exec(t, "CREATE TABLE effects (id_key VARCHAR(200) NOT NULL)")
	return p, st, l
}

func TestRoundTrips(t *testing.T) {
	_, st, l := onALine(t)
	var g store.Grant
	require.EqualValues(t, 2, l.requests(func() { g = reserve(t, st, claim("k"), store.Acquired) }))
	require.EqualValues(t, 1, l.requests(func() { reserve(t, st, claim("k"), store.InFlight) }))
	require.EqualValues(t, 1, l.requests(func() { require.NoError(t, st.Extend(t.Context(), g.Lease, 1, nil)) }))
	complete := func() { require.NoError(t, st.Complete(t.Context(), g.Lease, store.Outcome{})) }
	require.EqualValues(t, 1, l.requests(complete))
	require.EqualValues(t, 1, l.requests(func() { reserve(t, st, claim("k"), store.Complete) }))
	other := claim("k")
	other.Fingerprint = store.Fingerprint{}
	require.EqualValues(t, 1, l.requests(func() { reserve(t, st, other, store.Mismatch) }))
	require.EqualValues(t, 1, l.requests(func() { _, _ = st.Find(t.Context(), g.Lease.ID) }))

	var tx store.Tx[*sqltx.Tx]
	begin := func() {
		var err error
		tx, _, err = st.Begin(t.Context(), unleased("transaction"))
		require.NoError(t, err)
	}
	require.EqualValues(t, 5, l.requests(begin))
	require.EqualValues(t, 4, l.requests(func() { require.NoError(t, tx.Commit(t.Context(), store.Outcome{})) }))
	require.EqualValues(t, 2, l.requests(func() { reserve(t, st, unleased("taken over"), store.Acquired) }))
	require.EqualValues(t, 7, l.requests(func() { reserve(t, st, unleased("taken over"), store.TakenOver) }))
	require.EqualValues(t, 8, l.requests(func() {
		var err error
		tx, _, err = st.Begin(t.Context(), unleased("taken over"))
		require.NoError(t, err)
	}))
	require.NoError(t, tx.Rollback(t.Context()))
}

func TestOpenMakesEachStatementOneRoundTrip(t *testing.T) {
	l := &line{}
	cfg, err := mysql.ParseDSN(newPlace(t, mysqltest.DSN(t)).dsn)
	require.NoError(t, err)
	l.through(t)(cfg)
	st, err := mysqlstore.Open(t.Context(), cfg.FormatDSN(), mysqlstore.WithMigrate())
	require.NoError(t, err)
	defer st.Close()
	require.EqualValues(t, 2, l.requests(func() { reserve(t, st, claim("k"), store.Acquired) }))
}

func TestLostResponseOfAWriteIsUnknownAndCanBeFound(t *testing.T) {
	for _, done := range []bool{true, false} {
		_, st, l := onALine(t)
		c := claim("k")
		c.Owner = "owner of this claim"
		l.lose.Store(&loss{text: "INSERT", done: done})
		_, err := st.Reserve(t.Context(), c)
		require.ErrorIs(t, err, store.ErrUnknown)
		rec, err := st.Find(t.Context(), c.ID)
		if !done {
			require.ErrorIs(t, err, store.ErrNotFound)
			reserve(t, st, c, store.Acquired)
			rec, err = st.Find(t.Context(), c.ID)
		}
		require.NoError(t, err)
		g, held := store.Held(rec, c)
		require.True(t, held)
		require.Equal(t, store.Acquired, g.Verdict)

		l.lose.Store(&loss{text: "SET state", done: done})
		require.ErrorIs(t, st.Complete(t.Context(), g.Lease, store.Outcome{Result: []byte("result")}), store.ErrUnknown)
		rec, err = st.Find(t.Context(), c.ID)
		require.NoError(t, err)
		require.Equal(t, map[bool]store.State{true: store.StateComplete, false: store.StatePending}[done], rec.State)
		require.Equal(t, g.Lease.Fence, rec.Fence)
	}
}

func TestATakeOverIsUnknownOnlyIfItsCommitWasSent(t *testing.T) {
	for text, want := range map[string]error{
		"START TRANSACTION": store.ErrUnavailable, "SKIP LOCKED": store.ErrUnavailable, "\x03INSERT": store.ErrUnavailable,
		"\x03DELETE": store.ErrUnavailable, "\x03UPDATE": store.ErrUnavailable, "\x03COMMIT": store.ErrUnknown,
	} {
		_, st, l := onALine(t)
		reserve(t, st, unleased("k"), store.Acquired)
		l.lose.Store(&loss{text: text, done: true})
		_, err := st.Reserve(t.Context(), unleased("k"))
		require.ErrorIs(t, err, want, text)
	}
}

// A backup blocks commits, and so does a replica that does not acknowledge. A call without a context would wait for it.
func TestACallEndsWithItsContextWhileItsCommitHangs(t *testing.T) {
	for name, call := range map[string]func(ctx context.Context, st *mysqlstore.Store) error{
		"Reserve of a released ID": func(ctx context.Context, st *mysqlstore.Store) error {
			_, err := st.Reserve(ctx, claim("k"))
			return err
		},
		"Purge": func(ctx context.Context, st *mysqlstore.Store) error {
			_, err := st.Purge(ctx, 1)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, st, l := onALine(t)
			g := reserve(t, st, claim("k"), store.Acquired)
			require.NoError(t, st.Release(t.Context(), g.Lease))
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			l.lose.Store(&loss{text: "\x03COMMIT", open: cancel})
			err := call(ctx, st)
			require.ErrorIs(t, err, store.ErrUnknown)
			require.ErrorIs(t, err, context.Canceled)
		})
	}
}

func TestATransactionEndsWithItsContextWhileItsCommitHangs(t *testing.T) {
	p, st, l := onALine(t)
	tx, _, err := st.Begin(t.Context(), unleased("k"))
	require.NoError(t, err)
	var session int64
	require.NoError(t, tx.Tx().QueryRow("SELECT CONNECTION_ID()").Scan(&session))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	l.lose.Store(&loss{text: "\x03COMMIT", open: cancel})
	err = tx.Commit(ctx, store.Outcome{})
	require.ErrorIs(t, err, store.ErrUnknown)
	require.ErrorIs(t, err, context.Canceled)
	p.exec(t, fmt.Sprint("KILL ", session))
	beginSoon(t, st, "k")
}

func TestLostResponseOfAReadIsUnavailable(t *testing.T) {
	_, st, l := onALine(t)
	for _, f := range []func() error{
		func() error { _, err := st.Reserve(t.Context(), claim("k")); return err },
		func() error { _, err := st.Find(t.Context(), claim("k").ID); return err },
		func() error { _, _, err := st.Begin(t.Context(), claim("k")); return err },
	} {
		l.lose.Store(&loss{text: "IS_USED_LOCK", done: true})
		err := f()
		require.ErrorIs(t, err, store.ErrUnavailable)
		require.NotErrorIs(t, err, store.ErrUnknown)
	}
	reserve(t, st, claim("k"), store.Acquired)
}

func TestAListThatIsNotWholeEndsWithAnError(t *testing.T) {
	_, st, l := onALine(t)
	reserve(t, st, claim("k"), store.Acquired)
	l.lose.Store(&loss{text: "ORDER BY created_at", done: true})
	var last error
	for _, last = range st.Pending(t.Context(), "") {
	}
	require.ErrorIs(t, last, store.ErrUnavailable)
}

// A connection that is lost before the commit undoes everything. The outcome of a lost commit is unknown.
func TestLostConnectionOfATransaction(t *testing.T) {
	for text, unknown := range map[string]bool{
		"START TRANSACTION": false, "GET_LOCK": false, "RELEASE SAVEPOINT": false, "SET state": false,
		" RELEASE_LOCK": false, "\x03COMMIT": true,
	} {
		for _, done := range []bool{true, false} {
			p, st, l := onALine(t)
			if text == "START TRANSACTION" || text == "GET_LOCK" {
				l.lose.Store(&loss{text: text, done: done})
				_, _, err := st.Begin(t.Context(), unleased("k"))
				require.ErrorIs(t, err, store.ErrUnavailable, text)
				beginSoon(t, st, "k")
				continue
			}
			tx, g, err := st.Begin(t.Context(), unleased("k"))
			require.NoError(t, err)
			_, err = tx.Tx().ExecContext(t.Context(), "INSERT INTO effects VALUES ('k')")
			require.NoError(t, err)
			l.lose.Store(&loss{text: text, done: done})
			err = tx.Commit(t.Context(), store.Outcome{})
			if unknown {
				require.ErrorIs(t, err, store.ErrUnknown, text)
			} else {
				require.ErrorIs(t, err, store.ErrUnavailable, text)
				require.NotErrorIs(t, err, store.ErrUnknown, text)
			}
			require.NotErrorIs(t, err, store.ErrTxEnded, text)
			if unknown && done {
				rec, err := st.Find(t.Context(), g.Lease.ID)
				require.NoError(t, err)
				require.Equal(t, store.StateComplete, rec.State)
				require.Equal(t, g.Lease.Fence, rec.Fence)
				require.Equal(t, 1, p.count(t, "SELECT COUNT(*) FROM effects"))
				continue
			}
			next := beginSoon(t, st, "k")
			require.Greater(t, next.Lease.Fence, g.Lease.Fence)
			require.Zero(t, p.count(t, "SELECT COUNT(*) FROM effects"))
		}
	}
}

// beginSoon begins as soon as the server has noticed that a connection is gone.
func beginSoon(t *testing.T, st *mysqlstore.Store, key string) (g store.Grant) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for {
		tx, g, err := st.Begin(ctx, unleased(key))
		require.NoError(t, err)
		if tx != nil {
			require.NoError(t, tx.Rollback(t.Context()))
			return g
		}
		require.Equal(t, store.InFlight, g.Verdict)
		require.NoError(t, sqltx.Pause(t.Context(), 1))
	}
}

func TestServerThatIsDownIsUnavailable(t *testing.T) {
	db, err := sql.Open("mysql", "root@tcp(127.0.0.1:1)/redo")
	require.NoError(t, err)
	defer db.Close()
	st, err := mysqlstore.New(db)
	require.NoError(t, err)
	_, err = st.Reserve(t.Context(), claim("k"))
	require.ErrorIs(t, err, store.ErrUnavailable)
	require.NotErrorIs(t, err, store.ErrUnknown)
	require.ErrorIs(t, st.Check(t.Context()), store.ErrUnavailable)
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = st.Reserve(canceled, claim("k"))
	require.ErrorIs(t, err, context.Canceled)
}

func TestClosedStoreIsUnavailable(t *testing.T) {
	p := newPlace(t, mysqltest.DSN(t))
	st, err := mysqlstore.Open(t.Context(), p.dsn, mysqlstore.WithMigrate())
	require.NoError(t, err)
	l := reserve(t, st, claim("k"), store.Acquired).Lease
	tx, _, err := st.Begin(t.Context(), unleased("open"))
	require.NoError(t, err)
	require.NoError(t, st.Close())
	_, err = st.Reserve(t.Context(), claim("k"))
	require.ErrorIs(t, err, store.ErrUnavailable)
	require.ErrorIs(t, st.Complete(t.Context(), l, store.Outcome{}), store.ErrUnavailable)
	require.ErrorIs(t, st.Wait(t.Context(), l.ID, l.Fence), store.ErrUnavailable)
	require.NoError(t, tx.Commit(t.Context(), store.Outcome{}), "an open transaction outlives the store")
	require.Equal(t, 1, p.count(t, "SELECT COUNT(*) FROM redo_records WHERE state = 2"))
}

func TestCloseClosesItsOwnPoolOnly(t *testing.T) {
	p := newPlace(t, mysqltest.DSN(t))
	db := p.pool(t, p.dsn)
	st, err := mysqlstore.New(db)
	require.NoError(t, err)
	require.NoError(t, st.Close())
	require.NoError(t, db.PingContext(t.Context()), "the caller's pool")

	const connections = "SELECT COUNT(*) FROM information_schema.processlist WHERE db = DATABASE()"
	before := p.count(t, connections)
	closes := func() bool { return p.count(t, connections) == before }
	_, err = mysqlstore.Open(t.Context(), p.dsn)
	require.ErrorIs(t, err, mysqlstore.ErrNoTable)
	require.Eventually(t, closes, 5*time.Second, time.Millisecond)
	st, err = mysqlstore.Open(t.Context(), p.dsn, mysqlstore.WithMigrate())
	require.NoError(t, err)
	require.Equal(t, before+1, p.count(t, connections))
	require.NoError(t, st.Close())
	require.Eventually(t, closes, 5*time.Second, time.Millisecond)
}

// The driver's own limit is that of its configuration. A server with a lower one breaks the connection, so that the
// outcome looked unknown at each repetition.
func TestAResultOverThePacketIsRefused(t *testing.T) {
	srv := mysqltest.Private(t, "--max-allowed-packet=4M")
	for _, interpolate := range []bool{true, false} {
		p := newPlace(t, srv.DSN)
		p.open(t)
		st, err := mysqlstore.New(p.pool(t, p.dsn, func(cfg *mysql.Config) { cfg.InterpolateParams = interpolate }))
		require.NoError(t, err)
		require.NoError(t, st.Check(t.Context()))
		for n, fits := range map[int]bool{4<<20 - 64<<10: true, 4 << 20: false, 40 << 20: false} {
			o := store.Outcome{Result: bytes.Repeat([]byte("r"), n)}
			l := reserve(t, st, claim(fmt.Sprint(n)), store.Acquired).Lease
			tx, g, err := st.Begin(t.Context(), unleased(fmt.Sprint("tx ", n)))
			require.NoError(t, err)
			completed, committed := st.Complete(t.Context(), l, o), tx.Commit(t.Context(), o)
			if fits {
				require.NoError(t, completed)
				require.NoError(t, committed)
				r, err := st.Find(t.Context(), g.Lease.ID)
				require.NoError(t, err)
				require.Len(t, r.Result, n)
				continue
			}
			for _, err := range []error{completed, committed} {
				require.ErrorIs(t, err, store.ErrInvalid)
				require.ErrorContains(t, err, "max_allowed_packet of 4194304 bytes")
			}
			require.NoError(t, st.Complete(t.Context(), l, store.Outcome{}), "the record is pending")
			reserve(t, st, unleased(fmt.Sprint("tx ", n)), store.Acquired)
		}
	}
}
