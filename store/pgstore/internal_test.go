package pgstore

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/pgstore/pgtest"
)

// Texts returns the statements of Reserve and Complete, for comparison with pgx alone.
func Texts(s *Store) (reserve, complete string) { return s.sql.reserve, s.sql.complete }

// Version is the version of the table that this release makes.
func Version(s *Store) int { return s.table.Version() }

func testStore(t *testing.T, change ...func(*pgxpool.Config)) *Store {
	t.Helper()
	url := pgtest.URL(t)
	s, err := New(pgtest.NewPool(t, url, 4, change...), WithSchema(pgtest.NewSchema(t, url)))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	require.NoError(t, s.Migrate(t.Context()))
	return s
}

// The processes of two releases exclude each other by these locks. They may not change.
func TestTheLocksOfAnIDAreFixed(t *testing.T) {
	q := statements{table: `"public"."redo_operations"`}
	require.Equal(t, locks{turn: 6059507018281246188, open: -2810464062790748646}, q.locksOf(store.ID{Scope: "scope", Key: "key"}))
}

func TestLocksOfDifferentIDsDiffer(t *testing.T) {
	seen := map[int64]string{}
	for _, table := range []string{"one", "two"} {
		q := statements{table: table}
		for _, id := range []store.ID{
			{Key: "a"}, {Scope: "a", Key: "b"}, {Key: "ab"}, {Scope: "ab"}, {Scope: "a", Key: "bc"},
			{Scope: "ab", Key: "c"},
		} {
			l := q.locksOf(id)
			for _, number := range []int64{l.turn, l.open} {
				require.NotContains(t, seen, number, "%s %v", table, id)
				seen[number] = table
			}
			require.Equal(t, l, q.locksOf(id))
		}
	}
}

// A session's lock_timeout also ends a wait for a lock on the table, which shows nothing about the ID.
func TestALockOfAnotherSessionIsInFlightOnlyIfItIsTheIDs(t *testing.T) {
	s := testStore(t, func(cfg *pgxpool.Config) { cfg.ConnConfig.RuntimeParams["lock_timeout"] = "10ms" })
	c := store.Claim{ID: store.ID{Key: "k"}, Lease: time.Hour, Retention: time.Hour}
	other, err := pgtest.Connect(t, pgtest.URL(t)).Begin(t.Context())
	require.NoError(t, err)
	_, err = other.Exec(t.Context(), "LOCK TABLE "+s.sql.table)
	require.NoError(t, err)
	_, err = s.Reserve(t.Context(), c)
	require.ErrorIs(t, err, store.ErrUnavailable)

	_, err = other.Exec(t.Context(), "SELECT pg_advisory_xact_lock($1)", s.sql.locksOf(c.ID).turn)
	require.NoError(t, err)
	g, err := s.Reserve(t.Context(), c)
	require.NoError(t, err)
	require.Equal(t, store.InFlight, g.Verdict)

	require.NoError(t, other.Rollback(t.Context()))
	g, err = s.Reserve(t.Context(), c)
	require.NoError(t, err)
	require.Equal(t, store.Acquired, g.Verdict)
}

// Close waits for running calls if no transaction is open.
func TestTransactionIsCountedUntilItHasEnded(t *testing.T) {
	s := testStore(t)
	open := func() int {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.open
	}
	c := store.Claim{ID: store.ID{Key: "k"}, Retention: time.Hour}
	for _, end := range []func(store.Tx[pgx.Tx]) error{
		func(tx store.Tx[pgx.Tx]) error { return tx.Rollback(t.Context()) },
		func(tx store.Tx[pgx.Tx]) error { return tx.Commit(t.Context(), store.Outcome{}) },
	} {
		tx, g, err := s.Begin(t.Context(), c)
		require.NoError(t, err)
		require.Equal(t, store.Acquired, g.Verdict)
		require.Equal(t, 1, open())
		require.NoError(t, end(tx))
		require.Zero(t, open())
	}
	_, g, err := s.Begin(t.Context(), c)
	require.NoError(t, err)
	require.Equal(t, store.Complete, g.Verdict)
	require.Eventually(t, func() bool { return open() == 0 }, 10*time.Second, time.Millisecond)

	pgtest.Exec(t, pgtest.Connect(t, pgtest.URL(t)), "DROP TABLE "+s.sql.table)
	_, _, err = s.Begin(t.Context(), c)
	require.ErrorIs(t, err, ErrNoTable)
	require.Zero(t, open())
}

// A releasing connection calls a function after it has gone back to its pool.
type releasing struct {
	connection[pgx.Tx]
	after func()
}

func (c releasing) release(broken bool) {
	c.connection.release(broken)
	c.after()
}

// The second transaction has waited for the connection of the first. Its duplicates would otherwise wait for it too.
func TestEndOfATransactionLeavesTheIDToTheNextOne(t *testing.T) {
	s := testStore(t)
	c := store.Claim{ID: store.ID{Key: "k"}, Retention: time.Hour}
	free, waiting := make(chan struct{}), make(chan struct{})
	var next store.Tx[pgx.Tx]
	begun := make(chan error)
	go func() {
		var err error
		next, _, err = begin(t.Context(), s.records, c, func() (connection[pgx.Tx], error) {
			close(waiting)
			<-free
			return acquirePgx(t.Context(), s.pool)
		})
		begun <- err
	}()
	<-waiting
	first, _, err := begin(t.Context(), s.records, c, func() (connection[pgx.Tx], error) {
		conn, err := acquirePgx(t.Context(), s.pool)
		return releasing{conn, func() {
			close(free)
			require.NoError(t, <-begun)
		}}, err
	})
	require.NoError(t, err)
	require.True(t, s.holds(c.ID))
	require.NoError(t, first.Rollback(t.Context()))
	require.NotNil(t, next)
	t.Cleanup(func() { _ = next.Rollback(context.Background()) })
	require.True(t, s.holds(c.ID), "the entry is the next transaction's")
	require.NoError(t, next.Rollback(t.Context()))
	require.False(t, s.holds(c.ID))
	require.Empty(t, s.held)
}

// The pool gives out a connection that has been closed while it was idle.
func TestBeginReplacesAClosedConnection(t *testing.T) {
	s := testStore(t, func(cfg *pgxpool.Config) { cfg.MaxConns = 1 })
	idle, err := s.pool.Acquire(t.Context())
	require.NoError(t, err)
	below := idle.Conn()
	idle.Release()
	require.NoError(t, below.Close(t.Context()))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	tx, _, err := s.Begin(ctx, store.Claim{ID: store.ID{Key: "k"}, Retention: time.Hour})
	require.NoError(t, err)
	require.NoError(t, tx.Rollback(ctx))
}

// The end of the context has rolled back. The handler would get a transaction that is over.
func TestATransactionWhoseContextEndsInItsLastMomentHasNotBegun(t *testing.T) {
	db := stdlib.OpenDBFromPool(testStore(t).pool)
	defer db.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	conn, err := acquireSQL(ctx, db)
	require.NoError(t, err)
	defer conn.release(true)
	require.ErrorIs(t, conn.begin(ctx, func(b *pgx.Batch) {
		b.Queue("SELECT 1").QueryRow(func(row pgx.Row) error {
			defer cancel()
			return row.Scan(new(int))
		})
	}), context.Canceled)
}

func TestAListEndsWithItsFirstError(t *testing.T) {
	s := testStore(t)
	for i := range listed + 1 {
		_, err := s.Reserve(t.Context(), store.Claim{ID: store.ID{Key: fmt.Sprint(i)}, Retention: time.Hour})
		require.NoError(t, err)
	}
	s.sql.find = "SELECT 1 / octet_length($1::bytea || $2::bytea) - 1 / 0"
	var ends []error
	for _, err := range s.Pending(t.Context(), "") {
		ends = append(ends, err)
	}
	require.Len(t, ends, 1)
	require.ErrorContains(t, ends[0], "division by zero")
}

type opaque struct{ driver.Conn }

type raw struct{ opaque }

func (c raw) Raw() driver.Conn { return c.Conn }

type wrapped struct{ opaque }

func (c wrapped) WrappedConn() driver.Conn { return c.Conn }

// A wrapping connector wraps each connection, as a driver that traces does.
type wrapping struct {
	driver.Connector
	wrap func(driver.Conn) driver.Conn
}

func (c wrapping) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := c.Connector.Connect(ctx)
	return c.wrap(conn), err
}

func TestNewSQLFindsTheConnectionBelowAWrapper(t *testing.T) {
	s := testStore(t)
	for name, c := range map[string]struct {
		wrap func(driver.Conn) driver.Conn
		want error
	}{
		"a method Raw":         {func(c driver.Conn) driver.Conn { return raw{opaque{c}} }, nil},
		"a method WrappedConn": {func(c driver.Conn) driver.Conn { return wrapped{opaque{c}} }, nil},
		"two wrappers":         {func(c driver.Conn) driver.Conn { return wrapped{opaque{raw{opaque{c}}}} }, nil},
		"no method":            {func(c driver.Conn) driver.Conn { return opaque{c} }, store.ErrInvalid},
	} {
		db := sql.OpenDB(wrapping{stdlib.GetPoolConnector(s.pool), c.wrap})
		t.Cleanup(func() { require.NoError(t, db.Close()) })
		st, err := NewSQL(db, WithSchema(s.table.Schema))
		require.NoError(t, err)
		_, err = st.Reserve(t.Context(), store.Claim{ID: store.ID{Key: name}, Retention: time.Hour})
		require.ErrorIs(t, err, c.want, name)
	}
}

func TestACommitDuringThePauseSearchesNothing(t *testing.T) {
	s := testStore(t)
	_, err := s.Reserve(t.Context(), store.Claim{ID: store.ID{Key: "expired"}, Retention: time.Microsecond})
	require.NoError(t, err)
	s.free.next = time.Now().Add(time.Hour)
	tx, _, err := s.Begin(t.Context(), store.Claim{ID: store.ID{Key: "k"}, Retention: 2 * time.Hour})
	require.NoError(t, err)
	require.NoError(t, tx.Commit(t.Context(), store.Outcome{}))
	n, err := s.Purge(t.Context(), 10)
	require.NoError(t, err)
	require.Equal(t, 1, n)
}

func TestARefusedClaimPausesTheSearchForExpiredRecords(t *testing.T) {
	s := testStore(t)
	c := store.Claim{ID: store.ID{Key: "k"}, Lease: time.Hour, Retention: time.Hour}
	beside, err := New(s.pool, WithSchema(s.table.Schema))
	require.NoError(t, err)
	_, err = s.Reserve(t.Context(), c)
	require.NoError(t, err)
	require.NotZero(t, s.free.next, "a search that finds nothing is followed by a pause too")
	g, err := beside.Reserve(t.Context(), c)
	require.NoError(t, err)
	require.Equal(t, store.InFlight, g.Verdict)
	require.NotZero(t, beside.free.next)
}
