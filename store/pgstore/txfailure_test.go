package pgstore_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/pgstore"
	"github.com/redo-go/redo/store/pgstore/pgtest"
	"github.com/redo-go/redo/store/sqltx"
)

// pooled is a store over a pool that the test can look at.
func (p place) pooled(t testing.TB) (*pgstore.Store, *pgxpool.Pool) {
	t.Helper()
	pool := pgtest.NewPool(t, p.url, p.conns, p.change...)
	st, err := pgstore.New(pool, pgstore.WithSchema(p.schema))
	require.NoError(t, err)
	require.NoError(t, st.Migrate(context.Background()))
	return st, pool
}

func terminate(t testing.TB, url string, pid uint32) {
	t.Helper()
	conn := pgtest.Connect(t, url)
	pgtest.Exec(t, conn, "SELECT pg_terminate_backend($1)", int32(pid))
	until(t, "the backend is gone", func() bool {
		var left int
		return conn.QueryRow(context.Background(), "SELECT count(*) FROM pg_stat_activity WHERE pid = $1", int32(pid)).
			Scan(&left) ==
			nil &&
			left == 0
	})
}

// afterCommit returns a function that lets no response of conn arrive, waits until the record of key is settled, and
// then calls cancel. A driver whose context has ended asks the server to cancel the statement, so that an earlier end
// could undo the commit.
func (p place) afterCommit(t testing.TB) func(conn *wiredConn, key string, cancel func()) {
	p.change, p.conns = nil, 1
	st := p.open(t)
	return func(conn *wiredConn, key string, cancel func()) {
		conn.mute.Store(true)
		conn.after = func() {
			until(t, "the record is committed", func() bool {
				r, err := st.Find(context.Background(), claim(key).ID)
				return err == nil && r.State == store.StateComplete
			})
			cancel()
		}
	}
}

// The error of Commit is right whenever the connection fails. The connection always goes back.
func TestCommitThatFailsSaysWhatWasDone(t *testing.T) {
	p, w := newTxPlace(t)
	p.conns = 1
	st, pool := p.pooled(t)
	settled := p.afterCommit(t)
	pgtest.Exec(
		t,
		pgtest.Connect(t, p.url),
		fmt.Sprintf(`CREATE FUNCTION %[1]s.refuse() RETURNS trigger LANGUAGE plpgsql AS
		$$ BEGIN RAISE EXCEPTION 'refused' USING ERRCODE = TG_ARGV[0]; END $$;
		CREATE CONSTRAINT TRIGGER serialization AFTER INSERT ON %[1]s.effects DEFERRABLE INITIALLY DEFERRED
		FOR EACH ROW WHEN (NEW.key = 'serialization failure') EXECUTE FUNCTION %[1]s.refuse('40001');
		CREATE CONSTRAINT TRIGGER deferred AFTER INSERT ON %[1]s.effects DEFERRABLE INITIALLY DEFERRED
		FOR EACH ROW WHEN (NEW.key = 'deferred constraint') EXECUTE FUNCTION %[1]s.refuse('23514')`,
			pgx.Identifier{p.schema}.Sanitize()),
	)
	for name, c := range map[string]struct {
		fail      func(tx pgx.Tx, cancel func())
		want      []error
		committed bool
	}{
		"backend killed before": {
			func(tx pgx.Tx, _ func()) { terminate(t, p.url, tx.Conn().PgConn().PID()) },
			[]error{store.ErrUnavailable}, false,
		},
		"backend killed as the commit is sent": {func(tx pgx.Tx, _ func()) {
			pid := tx.Conn().PgConn().PID()
			w.beforeWrite(func(*wiredConn) { terminate(t, p.url, pid) })
		}, nil, false},
		"response lost": {func(pgx.Tx, func()) {
			w.beforeWrite(func(conn *wiredConn) { conn.deaf.Store(true) })
		}, []error{store.ErrUnknown}, true},
		"context ended": {func(_ pgx.Tx, cancel func()) {
			w.beforeWrite(func(conn *wiredConn) { settled(conn, "context ended", cancel) })
		},
			[]error{store.ErrUnknown, context.Canceled}, true},
		"serialization failure": {func(pgx.Tx, func()) {}, []error{store.ErrUnavailable}, false},
		"deferred constraint":   {func(pgx.Tx, func()) {}, nil, false},
		"statement that had failed": {func(tx pgx.Tx, _ func()) {
			require.Error(t, pgxWrite(t.Context(), tx, "SELECT 1/0"))
		}, nil, false},
		"query ended by its context": {func(tx pgx.Tx, _ func()) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			// The driver sends no statement of a context that has ended, and keeps the connection.
			w.beforeWrite(func(conn *wiredConn) { conn.after = cancel })
			// The driver's request to cancel can come before the statement has begun, which then sleeps to its end.
			require.ErrorIs(t, pgxWrite(ctx, tx, "SELECT pg_sleep(5)"), context.Canceled)
		}, []error{store.ErrUnavailable}, false},
		"rows left open": {func(tx pgx.Tx, _ func()) {
			_, err := tx.Query(t.Context(), "SELECT generate_series(1, 10)")
			require.NoError(t, err)
		}, []error{store.ErrUnavailable}, false},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			for _, key := range []string{"deletes expired records", "deletes none"} { // prepares the statements
				tx, _ := begin(t, st, claim(name+key), store.Acquired)
				require.NoError(t, tx.Commit(t.Context(), store.Outcome{}))
			}
			tx, g := begin(t, st, claim(name), store.Acquired)
			effect(t, tx.Tx(), name)
			c.fail(tx.Tx(), cancel)
			err := tx.Commit(ctx, store.Outcome{})
			require.Error(t, err)
			for _, want := range c.want {
				require.ErrorIs(t, err, want)
			}
			require.NoError(t, tx.Rollback(t.Context()))
			if c.committed {
				until(
					t,
					"the record is committed",
					func() bool {
						r, err := st.Find(t.Context(), g.Lease.ID)
						return err == nil && r.Fence == g.Lease.Fence
					},
				)
				p.requireEffects(t, name, 1)
				begin(t, st, claim(name), store.Complete)
			} else {
				if name != "backend killed as the commit is sent" { // its last message may be lost
					require.NotErrorIs(t, err, store.ErrUnknown)
				}
				until(t, "the ID is free", func() bool {
					next, _, err := st.Begin(t.Context(), claim(name))
					require.NoError(t, err)
					return next != nil && next.Rollback(t.Context()) == nil
				})
				absent(t, st, name)
				p.requireEffects(t, name, 0)
			}
			until(t, "the connection is back or gone", func() bool { return pool.Stat().AcquiredConns() == 0 })
		})
	}
}

func TestSQLCommitWhoseAnswerIsLostIsUnknown(t *testing.T) {
	p, w := newTxPlace(t)
	st := p.openSQL(t)
	settled := p.afterCommit(t)
	for name, fail := range map[string]func(conn *wiredConn, cancel func()){
		"response lost": func(conn *wiredConn, _ func()) { conn.deaf.Store(true) },
		"context ended": func(conn *wiredConn, cancel func()) { settled(conn, "context ended", cancel) },
	} {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		tx, g := begin(t, st, claim(name), store.Acquired)
		w.beforeCommit(func(conn *wiredConn) { fail(conn, cancel) })
		require.ErrorIs(t, tx.Commit(ctx, store.Outcome{}), store.ErrUnknown, name)
		until(
			t,
			"the record is committed",
			func() bool { r, err := st.Find(t.Context(), g.Lease.ID); return err == nil && r.Fence == g.Lease.Fence },
		)
	}
}

// A query that its context ends closes the connection. The commit is not sent.
func TestSQLCommitOverAClosedConnectionCommitsNothing(t *testing.T) {
	p, w := newTxPlace(t)
	st := p.openSQL(t)
	tx, _ := begin(t, st, claim("k"), store.Acquired)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	w.beforeWrite(func(conn *wiredConn) { conn.after = cancel })
	require.ErrorIs(t, sqlWrite(ctx, tx.Tx(), "SELECT pg_sleep(5)"), context.Canceled)
	err := tx.Commit(t.Context(), store.Outcome{})
	require.ErrorIs(t, err, store.ErrUnavailable)
	require.NotErrorIs(t, err, store.ErrUnknown)
}

// The session is sound.
func TestSQLCommitThatTheServerRefusesKeepsTheConnection(t *testing.T) {
	p, _ := newTxPlace(t)
	p.conns = 1
	st := p.openSQL(t)
	numbers := pgx.Identifier{p.schema, "numbers"}.Sanitize()
	pgtest.Exec(t, pgtest.Connect(t, p.url), "CREATE TABLE "+numbers+" (n int UNIQUE DEFERRABLE INITIALLY DEFERRED)")
	session := func(end func(tx store.Tx[*sqltx.Tx])) (pid int) {
		tx, _ := begin(t, st, claim("k"), store.Acquired)
		require.NoError(t, tx.Tx().QueryRow("SELECT pg_backend_pid()").Scan(&pid))
		end(tx)
		return pid
	}
	refused := session(func(tx store.Tx[*sqltx.Tx]) {
		require.NoError(t, sqlWrite(t.Context(), tx.Tx(), "INSERT INTO "+numbers+" VALUES (1), (1)"))
		err := tx.Commit(t.Context(), store.Outcome{})
		require.ErrorContains(t, err, "numbers_n_key")
		require.NotErrorIs(t, err, store.ErrUnknown)
		require.NotErrorIs(t, err, store.ErrLost)
	})
	next := session(func(tx store.Tx[*sqltx.Tx]) { require.NoError(t, tx.Commit(t.Context(), store.Outcome{})) })
	require.Equal(t, refused, next)
}

// Failures that another try can mend are the store's business as long as the caller has no transaction.
func TestBeginIsRetriedInside(t *testing.T) {
	p, _ := newTxPlace(t)
	st, _ := p.pooled(t)
	reserve(t, st, unleased("k"), store.Acquired) // Begin writes only over a record
	pgtest.Exec(t, pgtest.Connect(t, p.url), fmt.Sprintf(`SET search_path = %[1]s; CREATE SEQUENCE tries;
		CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
			IF nextval('tries') < 3 THEN RAISE EXCEPTION 'refused' USING ERRCODE = TG_ARGV[0]; END IF;
			RETURN NEW;
		END $$;
		CREATE TRIGGER refuse BEFORE INSERT ON %[2]s FOR EACH ROW EXECUTE FUNCTION refuse('40P01')`,
		pgx.Identifier{p.schema}.Sanitize(), p.table()))
	tx, _ := begin(t, st, claim("k"), store.TakenOver)
	require.NoError(t, tx.Commit(t.Context(), store.Outcome{}))
}

// Only a program that ignores the locks can write a record for an ID that a transaction holds.
func TestCommitOverAnotherProgramsRecordIsLost(t *testing.T) {
	p, _ := newTxPlace(t)
	st := p.open(t)
	for name, end := range endings[pgx.Tx]() {
		tx, _ := begin(t, st, claim("held"), store.Acquired)
		effect(t, tx.Tx(), "held")
		reserve(t, st, claim("other"), store.Acquired)
		pgtest.Exec(t, pgtest.Connect(t, p.url), "UPDATE "+p.table()+" SET key = 'held' WHERE key = 'other'")
		other := find(t, st, "held")
		if err := end(tx, t.Context()); name == "Rollback" {
			require.NoError(t, err)
		} else {
			require.ErrorIs(t, err, store.ErrLost)
		}
		p.requireEffects(t, "held", 0)
		require.Equal(t, other.Fence, find(t, st, "held").Fence)
		require.NoError(t, st.Release(t.Context(), other.Lease()))
	}
}
