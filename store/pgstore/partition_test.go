package pgstore_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/internal/racetest"
	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/pgstore"
	"github.com/redo-go/redo/store/pgstore/pgtest"
	"github.com/redo-go/redo/store/storetest"
)

// partition makes the place's table as docs/operations.md describes: the SQL of Migration without the storage
// parameters, which the partitions have instead.
func (p place) partition(t testing.TB, by string, partitions ...string) {
	t.Helper()
	text, err := pgstore.Migration(pgstore.WithSchema(p.schema))
	require.NoError(t, err)
	var kept []string
	for line := range strings.Lines(strings.Replace(text, "\n);", "\n) PARTITION BY "+by+";", 1)) {
		if !strings.Contains(line, " SET (") {
			kept = append(kept, line)
		}
	}
	conn := pgtest.Connect(t, p.url)
	pgtest.Exec(t, conn, strings.Join(kept, ""))
	for i, values := range partitions {
		pgtest.Exec(
			t,
			conn,
			fmt.Sprintf("CREATE TABLE %s PARTITION OF %s %s WITH (fillfactor = 80)", p.part(i), p.table(), values),
		)
	}
}

// part is the name of a partition.
func (p place) part(i int) string { return pgx.Identifier{p.schema, fmt.Sprint("part", i)}.Sanitize() }

func hashed() []string {
	var values []string
	for i := range 4 {
		values = append(values, fmt.Sprintf("FOR VALUES WITH (MODULUS 4, REMAINDER %d)", i))
	}
	return values
}

func TestContractOnAPartitionedTable(t *testing.T) {
	racetest.Repeats(t)
	places := map[store.Store]place{}
	at := func(t *testing.T, p place) store.Store {
		st := p.open(t)
		p.pool = nil // another handle has its own
		places[st] = p
		return st
	}
	next := reusing(t, func(t testing.TB) place {
		p := newPlace(t)
		p.partition(t, "HASH (scope, key)", hashed()...)
		return p
	})
	storetest.Run(t, func(t *testing.T) store.Store { return at(t, next(t)) },
		storetest.Beside(func(t *testing.T, first store.Store) store.Store { return at(t, places[first]) }),
		storetest.Damage(damaged(places)))
}

func TestTxContractOnAPartitionedTable(t *testing.T) {
	racetest.Repeats(t)
	places := map[store.Store]place{}
	next := reusing(t, func(t testing.TB) place {
		p := newPlace(t)
		p.effects(t)
		p.partition(t, "HASH (scope, key)", hashed()...)
		return p
	})
	storetest.RunTx(t, storetest.TxHarness[pgx.Tx]{
		Open: func(t *testing.T) store.TxStore[pgx.Tx] {
			p := next(t)
			st := p.open(t)
			places[st] = p
			return st
		},
		Write: func(ctx context.Context, tx pgx.Tx, key string) error {
			return pgxWrite(ctx, tx, "INSERT INTO effects VALUES ($1)", key)
		},
		Written: func(ctx context.Context, st store.TxStore[pgx.Tx], key string) (int, error) {
			return places[st].written(ctx, key)
		},
	})
}

// A purge and a Reserve delete by key: two rows in two partitions may have the same place.
func TestExpiredRecordsAreDeletedInTheirOwnPartitionsOnly(t *testing.T) {
	p := newPlace(t)
	p.partition(t, "HASH (scope, key)", hashed()...)
	st := p.open(t)
	for i := range 40 {
		c := unleased(fmt.Sprint(i))
		if i%2 == 0 {
			c.Retention = time.Microsecond
		}
		reserve(t, st, c, store.Acquired)
	}
	_, err := st.Purge(t.Context(), 100)
	require.NoError(t, err)
	var left int
	require.NoError(t, pgtest.Connect(t, p.url).QueryRow(t.Context(), "SELECT count(*) FROM "+p.table()).Scan(&left))
	require.Equal(t, 20, left)
	for i := 1; i < 40; i += 2 {
		find(t, st, fmt.Sprint(i))
	}
}

// Keys that are UUIDv7 begin with their time, so that a partition of a range of keys is one of a range of time.
// Its records are dropped together with it.
func TestRetentionByDroppingAPartitionOfKeys(t *testing.T) {
	key := func(day string, n int) string { return fmt.Sprintf("%s-7abc-8def-%012x", day, n) }
	const monday, tuesday, wednesday = "019a5b00-0000", "019a6000-0000", "019a6500-0000"
	p := newPlace(t)
	p.partition(t, "RANGE (key)",
		fmt.Sprintf("FOR VALUES FROM ('%s') TO ('%s')", monday, tuesday),
		fmt.Sprintf("FOR VALUES FROM ('%s') TO ('%s')", tuesday, wednesday),
		"DEFAULT")
	st := p.open(t)
	for n := range 10 {
		for _, day := range []string{monday, tuesday, wednesday} {
			l := reserve(t, st, claim(key(day, n)), store.Acquired).Lease
			require.NoError(t, st.Complete(t.Context(), l, store.Outcome{Result: []byte(day)}))
		}
	}
	open, _ := begin(t, st, claim(key(wednesday, 10)), store.Acquired)
	conn := pgtest.Connect(t, p.url)
	// An open transaction keeps a lock on the table. Without the timeout every later statement would wait behind the
	// DROP.
	_, err := conn.Exec(t.Context(), "SET lock_timeout = '10ms'")
	require.NoError(t, err)
	_, err = conn.Exec(t.Context(), "DROP TABLE "+p.part(0))
	require.ErrorContains(t, err, "lock timeout")
	reserve(t, st, claim(key(tuesday, 0)), store.Complete)
	require.NoError(t, open.Commit(t.Context(), store.Outcome{}))

	pgtest.Exec(t, conn, "DROP TABLE "+p.part(0))
	require.NoError(t, st.Check(t.Context()))
	for n := range 10 {
		absent(t, st, key(monday, n))
		require.Equal(t, []byte(tuesday), find(t, st, key(tuesday, n)).Result)
		require.Equal(t, []byte(wednesday), find(t, st, key(wednesday, n)).Result)
	}
	// A request with a dropped key is new again: the server must refuse old keys (server.RefuseExpiredKeys).
	reserve(t, st, claim(key(monday, 0)), store.Acquired)
}

// A crash of the server empties an unlogged partition, at any depth, although the table itself is logged.
func TestAnUnloggedPartitionIsRefused(t *testing.T) {
	p := newPlace(t)
	p.partition(t, "HASH (scope, key)", hashed()[:3]...)
	conn := pgtest.Connect(t, p.url)
	pgtest.Exec(t, conn, fmt.Sprintf("CREATE TABLE %s PARTITION OF %s %s PARTITION BY HASH (key)",
		p.part(3), p.table(), hashed()[3]))
	pgtest.Exec(t, conn, fmt.Sprintf("CREATE TABLE %s PARTITION OF %s FOR VALUES WITH (MODULUS 1, REMAINDER 0)",
		p.part(4), p.part(3)))
	st := p.open(t)
	require.NoError(t, st.Check(t.Context()), "all partitions are logged")
	for _, part := range []string{p.part(1), p.part(4)} {
		pgtest.Exec(t, conn, "ALTER TABLE "+part+" SET UNLOGGED")
		for _, err := range []error{st.Check(t.Context()), st.Migrate(t.Context())} {
			require.ErrorIs(t, err, pgstore.ErrForeign)
			require.ErrorIs(t, err, store.ErrUnavailable)
			require.ErrorContains(t, err, "its partition "+part+" is not logged, so that a crash would empty it")
		}
		pgtest.Exec(t, conn, "ALTER TABLE "+part+" SET LOGGED")
	}
	require.NoError(t, st.Check(t.Context()))
}
