package pgstore_test

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/pgstore"
	"github.com/redo-go/redo/store/pgstore/pgtest"
)

// In the modes exec and simple_protocol the driver reads values in the form that the session writes. A claim would be
// written, and then not be readable.
func TestCheckRefusesASessionWhoseValuesCannotBeRead(t *testing.T) {
	for _, mode := range []pgx.QueryExecMode{
		pgx.QueryExecModeCacheStatement, pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol,
	} {
		asText := mode != pgx.QueryExecModeCacheStatement
		for setting, unreadable := range map[[2]string]bool{
			{"DateStyle", "SQL, DMY"}: asText, {"DateStyle", "German"}: asText, {"bytea_output", "escape"}: asText,
			{"DateStyle", "ISO, DMY"}: false, {"TimeZone", "Asia/Kathmandu"}: false, {"extra_float_digits", "-15"}: false,
		} {
			p := newPlace(t)
			p.open(t) // it makes the table
			st, err := pgstore.New(pgtest.NewPool(t, p.url, 1, inMode(mode), func(cfg *pgxpool.Config) {
				cfg.ConnConfig.RuntimeParams[setting[0]] = setting[1]
			}), pgstore.WithSchema(p.schema))
			require.NoError(t, err)
			err = st.Check(t.Context())
			if !unreadable {
				require.NoError(t, err, "%v %v", mode, setting)
				reserve(t, st, claim("k"), store.Acquired)
				reserve(t, st, claim("k"), store.InFlight)
				continue
			}
			require.ErrorIs(t, err, store.ErrUnavailable, "%v %v", mode, setting)
			require.ErrorContains(t, err, "DateStyle of ISO")
			require.ErrorIs(t, st.Migrate(t.Context()), store.ErrUnavailable)
		}
	}
}

// A migration sees what another process has done, at every isolation level of the session.
func TestMigrationsOfManyProcessesAtEachLevel(t *testing.T) {
	for _, level := range []string{"read committed", "repeatable read", "serializable"} {
		p := newPlace(t)
		errs := make(chan error, 8)
		start := make(chan struct{})
		for range cap(errs) {
			pool := pgtest.NewPool(t, p.url, 1, func(cfg *pgxpool.Config) {
				cfg.ConnConfig.RuntimeParams["default_transaction_isolation"] = level
			})
			require.NoError(t, pool.Ping(t.Context()))
			st, err := pgstore.New(pool, pgstore.WithSchema(p.schema))
			require.NoError(t, err)
			go func() {
				<-start
				errs <- st.Migrate(t.Context())
			}()
		}
		close(start)
		for range cap(errs) {
			require.NoError(t, <-errs, level)
		}
	}
}

// A role or a database may be set to read only, as during a move to another server. Each claim would fail.
func TestCheckRefusesTransactionsThatMayNotWrite(t *testing.T) {
	p := newPlace(t)
	p.open(t) // it makes the table
	st, err := pgstore.New(pgtest.NewPool(t, p.url, 1, func(cfg *pgxpool.Config) {
		cfg.ConnConfig.RuntimeParams["default_transaction_read_only"] = "on"
	}), pgstore.WithSchema(p.schema))
	require.NoError(t, err)
	_, reserved := st.Reserve(t.Context(), claim("k"))
	for _, err := range []error{reserved, st.Check(t.Context()), st.Migrate(t.Context())} {
		require.ErrorIs(t, err, pgstore.ErrStandby)
		require.ErrorIs(t, err, store.ErrUnavailable)
	}
	require.ErrorContains(t, st.Check(t.Context()), "default_transaction_read_only")
}
