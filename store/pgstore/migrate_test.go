package pgstore_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/pgstore"
	"github.com/redo-go/redo/store/pgstore/pgtest"
)

// A version1 sends the statements of the release that made version 1 of the table.
type version1 struct {
	pool              *pgxpool.Pool
	reserve, complete string
}

// atVersion1 makes a table of version 1, as its release made it.
func atVersion1(t testing.TB, p place) version1 {
	t.Helper()
	read := func(name string) string {
		text, err := os.ReadFile("testdata/version1/" + name)
		require.NoError(t, err)
		return strings.NewReplacer("'{schema}.", "'"+strings.ReplaceAll(p.quoted(), "'", "''")+".", "{schema}",
			p.quoted()).
			Replace(string(text))
	}
	pgtest.Exec(t, pgtest.Connect(t, p.url), read("schema.sql"))
	// The backslash in the schema's name is read as it is: standard_conforming_strings is on.
	return version1{pgtest.NewPool(t, p.url, 8), read("reserve.sql"), read("complete.sql")}
}

func (p place) quoted() string { return pgx.Identifier{p.schema}.Sanitize() }

// run reserves and completes a key, and returns an error unless the record is complete under its fence.
func (v version1) run(ctx context.Context, key string, lock int64) error {
	c := claim(key)
	scope, name := []byte(c.ID.Scope), []byte(key)
	var mine bool
	var state int16
	var fence, born int64
	var fingerprint, result, meta []byte
	var lease, created, expires, read pgtype.Timestamptz
	reserve := func() error {
		return v.pool.QueryRow(ctx, v.reserve, scope, name, c.Fingerprint[:], lock, c.Meta, c.Lease.Microseconds(),
			c.Retention.Microseconds()).
			Scan(&mine, &fingerprint, &state, &result, &meta, &fence, &born, &lease, &created, &expires, &read)
	}
	if err := reserve(); err != nil || !mine {
		return errors.Join(err, fmt.Errorf("reserved %q: %v", key, mine))
	}
	tag, err := v.pool.Exec(ctx, v.complete, scope, name, fence, int16(store.StateComplete), []byte(key), int64(0))
	if err != nil || tag.RowsAffected() != 1 {
		return fmt.Errorf("%d records completed, %w", tag.RowsAffected(), err)
	}
	if err := reserve(); err != nil || mine || string(result) != key {
		return errors.Join(err, fmt.Errorf("the replay of %q is %q", key, result))
	}
	return nil
}

// A deployment migrates first, while the processes of the release before go on. One of them has a transaction open, for
// which Migrate must wait without making the others wait.
func TestProcessesOfTheReleaseBeforeWorkDuringAndAfterMigrate(t *testing.T) {
	p := newPlace(t)
	old := atVersion1(t, p)
	st, err := pgstore.New(pgtest.NewPool(t, p.url, 8), pgstore.WithSchema(p.schema))
	require.NoError(t, err)
	t.Run("the new release refuses the table before", func(t *testing.T) {
		_, reserved := st.Reserve(t.Context(), claim("early"))
		for _, err := range []error{st.Check(t.Context()), reserved} {
			require.ErrorIs(t, err, pgstore.ErrVersion)
			require.ErrorIs(t, err, store.ErrUnavailable)
			require.ErrorContains(t, err, "run Migrate")
		}
	})

	var done, newDone atomic.Int64
	stop := make(chan struct{})
	errs := make([]error, 16)
	var all sync.WaitGroup
	work := func(i int, count *atomic.Int64, one func(n int) error) {
		all.Go(func() {
			for n := 0; errs[i] == nil; n++ {
				select {
				case <-stop:
					return
				default:
				}
				errs[i] = one(n)
				count.Add(1)
			}
		})
	}
	for i := range 8 {
		work(
			i,
			&done,
			func(n int) error { return old.run(t.Context(), fmt.Sprint("old ", i, " ", n), int64(i)<<32+int64(n)) },
		)
	}
	open, err := old.pool.Begin(t.Context())
	require.NoError(t, err)
	_, err = open.Exec(t.Context(), "SELECT FROM "+p.table()+" LIMIT 1")
	require.NoError(t, err)

	migrated := make(chan error, 1)
	go func() { migrated <- st.Migrate(t.Context()) }()
	conn := pgtest.Connect(t, p.url)
	until(t, "Migrate waits for the open transaction", func() bool {
		var waits bool
		err := conn.QueryRow(t.Context(), `SELECT EXISTS (
			SELECT FROM pg_locks WHERE NOT granted AND mode = 'AccessExclusiveLock'
			AND relation = $1::regclass)`, p.table()).
			Scan(&waits)
		return err == nil && waits
	})
	before := done.Load()
	until(t, "the processes go on meanwhile", func() bool { return done.Load() > before+200 })
	require.Empty(t, migrated)
	require.NoError(t, open.Rollback(t.Context()))
	require.NoError(t, <-migrated)

	for i := 8; i < 16; i++ {
		work(i, &newDone, func(n int) error {
			g, err := st.Reserve(t.Context(), claim(fmt.Sprint("new ", i, " ", n)))
			if err != nil {
				return err
			}
			return st.Complete(t.Context(), g.Lease, store.Outcome{Result: []byte("new")})
		})
	}
	before = done.Load()
	until(t, "both releases work", func() bool { return done.Load() > before+100 && newDone.Load() > 100 })
	close(stop)
	all.Wait()
	require.NoError(t, errors.Join(errs...))
	require.Equal(t, []byte("old 3 0"), find(t, st, "old 3 0").Result, "the new release reads the old one's records")
	for _, err := range st.Pending(t.Context(), "") {
		require.NoError(t, err)
		t.Error("a record is pending")
	}
	require.NoError(t, st.Migrate(t.Context()), "again")
}

// The SQL of each step can be applied by another tool.
func TestMigrationFromAnEarlierVersionMakesThisOne(t *testing.T) {
	p := newPlace(t)
	atVersion1(t, p)
	text, err := pgstore.MigrationFrom(1, pgstore.WithSchema(p.schema))
	require.NoError(t, err)
	pgtest.Exec(t, pgtest.Connect(t, p.url), text)
	st, err := pgstore.New(pgtest.NewPool(t, p.url, 2), pgstore.WithSchema(p.schema))
	require.NoError(t, err)
	require.NoError(t, st.Check(t.Context()))
	current, err := pgstore.MigrationFrom(pgstore.Version(st))
	require.NoError(t, err)
	require.Empty(t, current)
	for _, version := range []int{-1, pgstore.Version(st) + 1} {
		_, err := pgstore.MigrationFrom(version)
		require.ErrorIs(t, err, store.ErrInvalid)
	}
}

// The next release migrates first, and this one goes on with its table.
func TestTableOfTheNextVersionIsAccepted(t *testing.T) {
	p := newPlace(t)
	st := p.open(t)
	comment := fmt.Sprintf("COMMENT ON TABLE %s IS 'redo pgstore %d'", p.table(), pgstore.Version(st)+1)
	pgtest.Exec(t, pgtest.Connect(t, p.url), "ALTER TABLE "+p.table()+" ADD COLUMN later text; "+comment)
	require.NoError(t, st.Check(t.Context()))
	require.NoError(t, st.Migrate(t.Context()))
	l := reserve(t, st, claim("k"), store.Acquired).Lease
	require.NoError(t, st.Complete(t.Context(), l, store.Outcome{}))
	var version string
	require.NoError(
		t,
		pgtest.Connect(t, p.url).
			QueryRow(t.Context(), "SELECT obj_description($1::regclass)", p.table()).
			Scan(&version),
	)
	require.Equal(t, fmt.Sprint("redo pgstore ", pgstore.Version(st)+1), version, "Migrate leaves it")
}

// A process of this release can meet a record of a later one during a deployment. The caller tries again elsewhere.
func TestRecordOfALaterReleaseIsRetryable(t *testing.T) {
	p := newPlace(t)
	st := p.open(t)
	id := reserve(t, st, unleased("k"), store.Acquired).Lease.ID
	p.damage(t, id, "format = 2")
	later := func(name string, err error) {
		t.Helper()
		require.ErrorIs(t, err, pgstore.ErrVersion, name)
		require.ErrorIs(t, err, store.ErrUnavailable, name)
		require.NotErrorIs(t, err, store.ErrDamaged, name)
		require.NotErrorIs(t, err, store.ErrNotFound, name)
		require.ErrorContains(t, err, id.String(), name)
	}
	_, err := st.Find(t.Context(), id)
	later("Find", err)
	_, err = st.Reserve(t.Context(), unleased("k"))
	later("Reserve", err)
	_, _, err = st.Begin(t.Context(), unleased("k"))
	later("Begin", err)
	later("Drop", st.Drop(t.Context(), id))
	listed := 0
	for r, err := range st.Pending(t.Context(), "") {
		later("Pending", err)
		require.Equal(t, store.Record{ID: id}, r)
		listed++
	}
	require.Equal(t, 1, listed)
	p.damage(t, id, "format = 1")
	reserve(t, st, unleased("k"), store.TakenOver)
}

// A completion changes no column of an index, and the page has room for it: Postgres writes no index entry. The record
// of a transaction is written once.
func TestCompletionIsAHotUpdate(t *testing.T) {
	for name, c := range map[string]struct {
		index string
		hot   int64
	}{
		"as Migrate makes the table":       {"", 100},
		"with an index that names a state": {"CREATE INDEX ON {table} (created_at) WHERE state = 1", 0},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t)
			p.conns = 1
			st := p.open(t)
			conn := pgtest.Connect(t, p.url)
			if c.index != "" {
				pgtest.Exec(t, conn, strings.ReplaceAll(c.index, "{table}", p.table()))
			}
			pool := pgtest.NewPool(t, p.url, 1)
			work, err := pgstore.New(pool, pgstore.WithSchema(p.schema))
			require.NoError(t, err)
			for i := range 100 {
				l := reserve(t, work, claim(fmt.Sprint(i)), store.Acquired).Lease
				require.NoError(t, work.Complete(t.Context(), l, store.Outcome{Result: make([]byte, 256)}))
				tx, _ := begin(t, work, claim(fmt.Sprint("tx ", i)), store.Acquired)
				require.NoError(t, tx.Commit(t.Context(), store.Outcome{Result: make([]byte, 256)}))
			}
			pool.Close() // a session reports its statistics when it ends
			var inserts, updates, hot int64
			until(t, "the statistics are there", func() bool {
				err := conn.QueryRow(t.Context(),
					"SELECT n_tup_ins, n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables WHERE relid = $1::regclass",
					p.table()).
					Scan(&inserts, &updates, &hot)
				return err == nil && inserts == 200
			})
			require.EqualValues(t, 100, updates)
			require.Equal(t, c.hot, hot)
			require.NoError(t, st.Close())
		})
	}
}
