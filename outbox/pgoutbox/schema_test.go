package pgoutbox_test

import (
	"fmt"
	"log"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

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
	t.Run("what is no table of this version is left alone", func(t *testing.T) {
		p := newPlace(t)
		q, err := pgoutbox.New(p.pool(t), pgoutbox.WithSchema(p.schema))
		require.NoError(t, err)
		require.ErrorIs(t, q.Check(t.Context()), pgoutbox.ErrNoTable)
		_, err = q.Stats(t.Context())
		require.ErrorIs(t, err, pgoutbox.ErrNoTable)
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
			nil, pgoutbox.WithSchema(""), pgoutbox.WithTable(""), pgoutbox.WithTable("a\x00b"), pgoutbox.WithTable(strings.Repeat("t", 59)),
		} {
			_, err := pgoutbox.Migration(opt)
			require.ErrorIs(t, err, store.ErrInvalid)
		}
		_, err := pgoutbox.New(nil)
		require.ErrorIs(t, err, store.ErrInvalid)
	})
}

// The index that guarantees it is what two claims meet at that saw different first events of a key.
func TestDatabaseRefusesASecondEventOfAKeyUnderWay(t *testing.T) {
	p := newPlace(t)
	q, pool := p.open(t)
	tx := beginPGX(t, q, pool)
	for _, id := range []string{"a1", "a2"} {
		_, err := tx.Enqueue(t.Context(), keyed(id, "a"))
		require.NoError(t, err)
	}
	require.NoError(t, tx.Commit(t.Context()))
	table := fmt.Sprintf(`"%s".redo_outbox`, strings.ReplaceAll(p.schema, `"`, `""`))
	_, err := pool.Exec(t.Context(), "UPDATE "+table+" SET leased = true")
	require.ErrorContains(t, err, "redo_outbox_busy")
}

func TestQueueOfAClosedPoolIsUnavailable(t *testing.T) {
	q, pool := newPlace(t).open(t)
	pool.Close()
	_, err := q.Stats(t.Context())
	require.ErrorIs(t, err, store.ErrUnavailable)
}
