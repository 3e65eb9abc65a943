package pgoutbox_test

import (
	"fmt"
	"log"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/outbox"
	"github.com/redo-go/redo/outbox/pgoutbox"
	"github.com/redo-go/redo/store"
)

// The program's own migration tool applies the text.
func ExampleMigration() {
	text, err := pgoutbox.Migration(pgoutbox.WithSchema("shop"))
	if err != nil {
		log.Fatal(err)
	}
	first, _, _ := strings.Cut(text, "\n")
	fmt.Println(first)
	// Output: CREATE TABLE "shop"."redo_outbox" (
}

func TestMigration(t *testing.T) {
	t.Run("processes that start together make one table", func(t *testing.T) {
		p := newPlace(t)
		var wg sync.WaitGroup
		errs := make([]error, 8)
		for i := range errs {
			q, err := pgoutbox.New(p.pool(t), pgoutbox.WithSchema(p.schema))
			require.NoError(t, err)
			wg.Go(func() { errs[i] = q.Migrate(t.Context()) })
		}
		wg.Wait()
		for _, err := range errs {
			require.NoError(t, err)
		}
	})
	t.Run("a printed migration makes the table that Check wants", func(t *testing.T) {
		p := newPlace(t)
		text, err := pgoutbox.Migration(pgoutbox.WithSchema(p.schema), pgoutbox.WithTable("its own"))
		require.NoError(t, err)
		p.exec(t, text)
		q, err := pgoutbox.New(p.pool(t), pgoutbox.WithSchema(p.schema), pgoutbox.WithTable("its own"))
		require.NoError(t, err)
		require.NoError(t, q.Check(t.Context()))
	})
	t.Run("a relation that is no table of this version is left alone", func(t *testing.T) {
		p := newPlace(t)
		q, err := pgoutbox.New(p.pool(t), pgoutbox.WithSchema(p.schema))
		require.NoError(t, err)
		require.ErrorIs(t, q.Check(t.Context()), pgoutbox.ErrNoTable)
		_, err = q.Stats(t.Context())
		require.ErrorIs(t, err, pgoutbox.ErrNoTable)
		for name, enqueue := range map[string]func(tx pgx.Tx) error{
			"one event": func(tx pgx.Tx) error {
				_, err := q.Enqueue(t.Context(), tx, outbox.Event{})
				return err
			},
			"two events": func(tx pgx.Tx) error {
				_, err := q.EnqueueBatch(t.Context(), tx, make([]outbox.Event, 2))
				return err
			},
		} {
			tx, err := p.pool(t).Begin(t.Context())
			require.NoError(t, err)
			require.ErrorIs(t, enqueue(tx), pgoutbox.ErrNoTable, name)
			require.ErrorContains(t, enqueue(tx), "a statement in the transaction has failed", name)
			require.NoError(t, tx.Rollback(t.Context()))
		}
		table := fmt.Sprintf(`"%s".redo_outbox`, strings.ReplaceAll(p.schema, `"`, `""`))
		p.exec(t, "CREATE TABLE "+table+" (id int)")
		require.ErrorIs(t, q.Migrate(t.Context()), pgoutbox.ErrForeign)
		p.exec(t, "COMMENT ON TABLE "+table+" IS 'redo pgoutbox 9'")
		err = q.Migrate(t.Context())
		require.ErrorIs(t, err, pgoutbox.ErrVersion)
		require.ErrorIs(t, err, store.ErrUnavailable)
	})
	t.Run("a bad name is refused", func(t *testing.T) {
		for _, opt := range []pgoutbox.Option{
			nil, pgoutbox.WithSchema(""), pgoutbox.WithTable(""), pgoutbox.WithTable("a\x00b"),
			pgoutbox.WithTable(strings.Repeat("t", 55)),
		} {
			_, err := pgoutbox.Migration(opt)
			require.ErrorIs(t, err, store.ErrInvalid)
		}
		_, err := pgoutbox.New(nil)
		require.ErrorIs(t, err, store.ErrInvalid)
	})
}

func TestTableFromBeforeTheFirstReleaseIsRefused(t *testing.T) {
	p := newPlace(t)
	q, _ := p.open(t)
	require.NoError(t, q.Check(t.Context()), "a good one passes")
	p.exec(t, "DROP TABLE "+p.named("_cursor")) // which the unreleased version did not have
	for _, err := range []error{q.Check(t.Context()), q.Migrate(t.Context())} {
		require.ErrorIs(t, err, pgoutbox.ErrVersion)
		require.ErrorIs(t, err, store.ErrUnavailable)
		require.ErrorContains(t, err, "before the first release")
	}
}

// A crash of the server empties an unlogged table, and sets an unlogged sequence back.
func TestUnloggedTablesAreRefused(t *testing.T) {
	for _, what := range []string{
		"TABLE _cursor", "TABLE _claim", "TABLE _late", "TABLE _line", "TABLE _disabled",
		"SEQUENCE _fence", "SEQUENCE _seq_seq",
	} {
		p := newPlace(t)
		q, _ := p.open(t)
		require.NoError(t, q.Check(t.Context()), "a good one passes")
		kind, suffix, _ := strings.Cut(what, " ")
		p.exec(t, "ALTER "+kind+" "+p.named(suffix)+" SET UNLOGGED")
		for _, err := range []error{q.Check(t.Context()), q.Migrate(t.Context())} {
			require.ErrorIs(t, err, pgoutbox.ErrForeign, what)
			require.ErrorIs(t, err, store.ErrUnavailable, what)
			require.ErrorContains(t, err, `"redo_outbox`+suffix+`" is not logged`, what)
		}
	}
}

func TestEventsOfAMissingTableAreAnError(t *testing.T) {
	p := newPlace(t)
	q, _ := p.open(t)
	p.exec(t, "DROP TABLE "+p.named("_late")+" CASCADE")
	for _, state := range []outbox.State{outbox.StateDead, outbox.StateWaiting} {
		var errs []error
		for _, err := range q.Events(t.Context(), outbox.Selection{State: state}) {
			errs = append(errs, err)
		}
		require.Len(t, errs, 1)
		require.ErrorContains(t, errs[0], "_late")
	}
}

// A relay must not take a log that it can't read for an empty one.
func TestAClaimOfAMissingTableIsAnError(t *testing.T) {
	p := newPlace(t)
	q, _ := p.open(t)
	claim := outbox.Claim{Max: 1, Lease: time.Second}
	_, err := q.Claim(t.Context(), claim) // looks for all expired leases, which the next one does not
	require.NoError(t, err)
	p.exec(t, "DROP TABLE "+p.named("_cursor"))
	_, err = q.Claim(t.Context(), claim)
	require.ErrorContains(t, err, "_cursor")
}

// A program may empty all tables of its database, for instance between its tests.
func TestAClaimOfAnEmptyCursorIsAnError(t *testing.T) {
	p := newPlace(t)
	q, _ := p.open(t)
	claim := outbox.Claim{Max: 1, Lease: time.Second}
	_, err := q.Claim(t.Context(), claim) // looks at the cursor, which the next one does not
	require.NoError(t, err)
	p.exec(t, "TRUNCATE "+p.named("_cursor"))
	require.NoError(t, q.Append(t.Context(), outbox.Event{Destination: "bank"}))
	for range 2 {
		_, err = q.Claim(t.Context(), claim)
		require.ErrorIs(t, err, pgoutbox.ErrForeign)
		require.ErrorContains(t, err, "its cursor has no row")
	}
	require.ErrorIs(t, q.Check(t.Context()), pgoutbox.ErrForeign)
}

// No claim finds an event whose place is before the cursor. A logical replica does not have the sequence's value.
func TestASequenceBehindTheCursorIsAnError(t *testing.T) {
	p := newPlace(t)
	q, pool := p.open(t)
	claim := outbox.Claim{Max: 1, Lease: time.Second}
	for range 3 {
		require.NoError(t, q.Append(t.Context(), outbox.Event{Destination: "bank"}))
		ds, err := q.Claim(t.Context(), claim)
		require.NoError(t, err)
		require.Len(t, ds, 1)
	}
	p.exec(t, "TRUNCATE "+p.table()+" RESTART IDENTITY")
	other, _ := pgoutbox.New(pool, pgoutbox.WithSchema(p.schema))
	_, claimed := other.Claim(t.Context(), claim)
	for _, err := range []error{claimed, q.Check(t.Context()), q.Migrate(t.Context())} {
		require.ErrorIs(t, err, pgoutbox.ErrForeign)
		require.ErrorContains(t, err, "its sequence was set back")
	}
	_, mend, _ := strings.Cut(q.Check(t.Context()).Error(), "SELECT ")
	mend, _, _ = strings.Cut(mend, ": ")
	p.exec(t, "SELECT "+mend)
	require.NoError(t, q.Check(t.Context()))
	require.NoError(t, q.Append(t.Context(), outbox.Event{Destination: "bank"}))
	ds, err := q.Claim(t.Context(), claim)
	require.NoError(t, err)
	require.Len(t, ds, 1)
}

// A row's transaction must have its number before the row has its place. See logSQL.
func TestDefaultOfXIDComesBeforeThatOfSeq(t *testing.T) {
	p := newPlace(t)
	_, pool := p.open(t)
	var right bool
	require.NoError(t, pool.QueryRow(t.Context(),
		"SELECT min(attnum) FILTER (WHERE attname = 'xid') < min(attnum) FILTER (WHERE attname = 'seq') "+
			"FROM pg_attribute WHERE attrelid = $1::text::regclass", p.table()).Scan(&right))
	require.True(t, right)
}

func TestQueueOfAClosedPoolIsUnavailable(t *testing.T) {
	q, pool := newPlace(t).open(t)
	pool.Close()
	_, err := q.Stats(t.Context())
	require.ErrorIs(t, err, store.ErrUnavailable)
}
