package pgstore_test

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/pgstore"
	"github.com/redo-go/redo/store/pgstore/pgtest"
)

func TestTableThatIsNotOursIsRefused(t *testing.T) {
	migration := func(p place) string {
		text, err := pgstore.Migration(pgstore.WithSchema(p.schema))
		require.NoError(t, err)
		return text
	}
	for _, c := range []struct {
		name string
		sql  func(p place) string
		want error
	}{
		{
			"foreign table", func(p place) string { return "CREATE TABLE " + p.table() + " (id int)" },
			pgstore.ErrForeign,
		},
		{
			"foreign view", func(p place) string { return "CREATE VIEW " + p.table() + " AS SELECT 1" },
			pgstore.ErrForeign,
		},
		{"another version", func(p place) string {
			return migration(p) + "COMMENT ON TABLE " + p.table() + " IS 'redo pgstore 4'"
		}, pgstore.ErrVersion},
		{
			"lost column",
			func(p place) string { return migration(p) + "ALTER TABLE " + p.table() + " DROP COLUMN meta" },
			pgstore.ErrVersion,
		},
		{
			"unlogged table",
			func(p place) string { return migration(p) + "ALTER TABLE " + p.table() + " SET UNLOGGED" },
			pgstore.ErrForeign,
		},
		{"cached sequence", func(p place) string {
			return migration(p) + "ALTER SEQUENCE " + pgx.Identifier{p.schema, "redo_records_fence"}.Sanitize() +
				" CACHE 20"
		}, pgstore.ErrForeign},
		{"lost primary key", func(p place) string {
			return migration(p) + "ALTER TABLE " + p.table() + " DROP CONSTRAINT redo_records_pkey"
		}, pgstore.ErrForeign},
		{"unlogged sequence", func(p place) string {
			return migration(p) + "ALTER SEQUENCE " + pgx.Identifier{p.schema, "redo_records_fence"}.Sanitize() +
				" SET UNLOGGED"
		}, pgstore.ErrForeign},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newPlace(t)
			pgtest.Exec(t, pgtest.Connect(t, p.url), c.sql(p))
			st, err := pgstore.New(pgtest.NewPool(t, p.url, 2), pgstore.WithSchema(p.schema))
			require.NoError(t, err)
			for _, err := range []error{st.Check(t.Context()), st.Migrate(t.Context())} {
				require.ErrorIs(t, err, c.want)
				require.ErrorIs(t, err, store.ErrUnavailable)
				require.ErrorContains(t, err, "redo_records")
			}
		})
	}
}

// A rule can drop the record of a transaction without an error. One of Postgres refuses Reserve.
func TestTableWithARuleIsRefused(t *testing.T) {
	p := newPlace(t)
	st := p.open(t)
	pgtest.Exec(t, pgtest.Connect(t, p.url), "CREATE RULE nothing AS ON INSERT TO "+p.table()+" DO INSTEAD NOTHING")
	require.ErrorIs(t, st.Check(t.Context()), store.ErrUnavailable)
	tx, _ := begin(t, st, claim("k"), store.Acquired)
	require.ErrorIs(t, tx.Commit(t.Context(), store.Outcome{}), store.ErrUnavailable)
	begin(t, st, claim("k"), store.Acquired)
}

// Row security would make the record of another role absent.
func TestRowSecurityThatAppliesToTheRoleIsRefused(t *testing.T) {
	p := newPlace(t)
	p.open(t)
	conn := pgtest.Connect(t, p.url)
	schema := pgx.Identifier{p.schema}.Sanitize()
	role := schema
	pgtest.Exec(t, conn, "CREATE ROLE "+role)
	t.Cleanup(func() {
		pgtest.Exec(t, pgtest.Connect(t, p.url), "DROP OWNED BY "+role+"; DROP ROLE "+role)
	})
	pgtest.Exec(t, conn, "GRANT USAGE ON SCHEMA "+schema+" TO "+role+
		"; GRANT ALL ON ALL TABLES IN SCHEMA "+schema+" TO "+role+
		"; GRANT ALL ON ALL SEQUENCES IN SCHEMA "+schema+" TO "+role)
	p.change = append(p.change, func(cfg *pgxpool.Config) { cfg.ConnConfig.RuntimeParams["role"] = p.schema })
	st, err := pgstore.New(pgtest.NewPool(t, p.url, 2, p.change...), pgstore.WithSchema(p.schema))
	require.NoError(t, err)
	require.NoError(t, st.Check(t.Context()))
	pgtest.Exec(t, conn, "ALTER TABLE "+p.table()+" ENABLE ROW LEVEL SECURITY")
	err = st.Check(t.Context())
	require.ErrorIs(t, err, store.ErrUnavailable)
	require.ErrorContains(t, err, "row security applies to the role")
	pgtest.Exec(t, conn, "ALTER ROLE "+role+" BYPASSRLS")
	require.NoError(t, st.Check(t.Context()))
}

func TestMissingTableSaysHowToMakeIt(t *testing.T) {
	p := newPlace(t)
	st, err := pgstore.New(pgtest.NewPool(t, p.url, 2), pgstore.WithSchema(p.schema))
	require.NoError(t, err)
	_, reserved := st.Reserve(t.Context(), claim("k"))
	for _, err := range []error{st.Check(t.Context()), reserved} {
		require.ErrorIs(t, err, pgstore.ErrNoTable)
		require.ErrorIs(t, err, store.ErrUnavailable)
		require.ErrorContains(t, err, "create it with Migrate")
	}
	nowhere, err := pgstore.New(pgtest.NewPool(t, p.url, 2), pgstore.WithSchema("no such schema"))
	require.NoError(t, err)
	require.ErrorContains(t, nowhere.Migrate(t.Context()), "there is no such schema")
}

func TestMigrationsAtOneTimeAgree(t *testing.T) {
	p := newPlace(t)
	require.NoError(t, race(func(int) error {
		st, err := pgstore.New(pgtest.NewPool(t, p.url, 1), pgstore.WithSchema(p.schema))
		if err != nil {
			return err
		}
		return st.Migrate(t.Context())
	}))
}

func TestOpenRefuses(t *testing.T) {
	p := newPlace(t)
	st, err := pgstore.Open(t.Context(), p.url, pgstore.WithSchema(p.schema), pgstore.WithMigrate())
	require.NoError(t, err)
	reserve(t, st, claim("k"), store.Acquired)
	require.NoError(t, st.Close())
	require.NoError(t, st.Close())
	_, err = st.Reserve(t.Context(), claim("k"))
	require.ErrorIs(t, err, store.ErrUnavailable)

	conn := pgtest.Connect(t, p.url)
	pgtest.Exec(t, conn, "DROP ROLE IF EXISTS redo_locked_out")
	pgtest.Exec(t, conn, "CREATE ROLE redo_locked_out NOLOGIN PASSWORD 'right'")
	t.Cleanup(func() { pgtest.Exec(t, pgtest.Connect(t, p.url), "DROP ROLE redo_locked_out") })
	cfg := conn.Config()
	for name, url := range map[string]string{
		"a role that may not log in": strings.Replace(p.url, cfg.User+"@", "redo_locked_out:s3cret@", 1),
		"no listener":                "postgres://app:s3cret@127.0.0.1:1/db?sslmode=disable",
	} {
		_, err := pgstore.Open(t.Context(), url)
		require.ErrorIs(t, err, store.ErrUnavailable, name)
		require.NotContains(t, err.Error(), "s3cret", name)
	}
	_, err = pgstore.Open(t.Context(), "postgres://app:s3cret@[bad")
	require.ErrorIs(t, err, store.ErrInvalid)
	require.NotContains(t, err.Error(), "s3cret")
}

func TestOptionsAreValidated(t *testing.T) {
	for name, opt := range map[string]pgstore.Option{
		"empty schema":     pgstore.WithSchema(""),
		"long table":       pgstore.WithTable(strings.Repeat("t", 56)),
		"NUL in a name":    pgstore.WithTable("a\x00b"),
		"name of no UTF-8": pgstore.WithSchema("\xff"),
	} {
		_, err := pgstore.Migration(opt)
		require.ErrorIs(t, err, store.ErrInvalid, name)
	}
	_, err := pgstore.New(nil)
	require.ErrorIs(t, err, store.ErrInvalid)
	_, err = pgstore.NewSQL(nil)
	require.ErrorIs(t, err, store.ErrInvalid)
	_, err = pgstore.Migration(nil, pgstore.WithTable(strings.Repeat("t", 55)))
	require.NoError(t, err)
}

func TestTooLongAResultIsRefused(t *testing.T) {
	st := newPlace(t).open(t)
	l := reserve(t, st, claim("k"), store.Acquired).Lease
	require.ErrorIs(
		t,
		st.Complete(t.Context(), l, store.Outcome{Result: make([]byte, pgstore.MaxResult+1)}),
		store.ErrInvalid,
	)
	require.Equal(t, store.StatePending, find(t, st, "k").State)
}
