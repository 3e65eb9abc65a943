package pgstore

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/store"
)

// TestServer gives the tests inside the package the server of those outside.
var TestServer func(t testing.TB) (url, schema string)

// Texts returns the statements of Reserve and Complete, for comparison with pgx alone.
func Texts(s *Store) (reserve, complete string) { return s.sql.reserve, s.sql.complete }

func poolOf(s *Store) *pgxpool.Pool { return s.engine.(*pgxPool).pool }

func testStore(t *testing.T) *Store {
	t.Helper()
	url, schema := TestServer(t)
	pool, err := pgxpool.New(t.Context(), url)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	s, err := New(pool, WithSchema(schema))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	require.NoError(t, s.Migrate(t.Context()))
	return s
}

func TestDurationsAreRoundedUp(t *testing.T) {
	for d, want := range map[time.Duration]int64{
		0:                     0,
		1:                     1,
		time.Microsecond:      1,
		time.Microsecond + 1:  2,
		time.Hour:             3_600_000_000,
		store.Forever - 1:     9_223_372_036_854_776,
		store.Forever - 1_000: 9_223_372_036_854_775,
		store.Forever:         -1,
	} {
		require.Equal(t, want, micros(d), d)
	}
}

func TestBackoffIsBounded(t *testing.T) {
	require.Zero(t, backoff(1, 0.99))
	for try, most := range map[int]time.Duration{2: time.Millisecond, 3: 2 * time.Millisecond, 7: 32 * time.Millisecond, maxTries: 32 * time.Millisecond} {
		require.Zero(t, backoff(try, 0))
		require.Equal(t, most/2, backoff(try, 0.5))
	}
	require.Equal(t, 75*time.Second, jitter(100*time.Second, 0))
	require.Equal(t, 100*time.Second, jitter(100*time.Second, 0.5))
}
