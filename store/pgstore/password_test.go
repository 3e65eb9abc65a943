package pgstore_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/pgstore"
	"github.com/redo-go/redo/store/pgstore/pgtest"
)

// A wrong password, and an engine that goes down later: each has its own error. A store that was open works again
// when the engine is back.
func TestWhoIsNotLetInIsToldSo(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a new server")
	}
	srv := pgtest.NewServer(t)
	pgtest.Exec(
		t,
		pgtest.Connect(t, srv.URL),
		"CREATE ROLE app LOGIN PASSWORD 'right'; GRANT CREATE ON SCHEMA public TO app",
	)
	hba := filepath.Join(srv.Cluster(), "pg_hba.conf")
	rules, err := os.ReadFile(hba)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(hba, append([]byte("host all app 127.0.0.1/32 scram-sha-256\n"), rules...), 0o600))
	pgtest.Exec(t, pgtest.Connect(t, srv.URL), "SELECT pg_reload_conf()")
	as := func(password string) string {
		return fmt.Sprintf("postgres://app:%s@127.0.0.1:%d/postgres?sslmode=disable", password, srv.Port)
	}

	until(t, "the wrong password is refused", func() bool {
		st, err := pgstore.Open(t.Context(), as("s3cret"), pgstore.WithMigrate())
		if err == nil { // the rules are not read yet
			require.NoError(t, st.Close())
			return false
		}
		require.ErrorIs(t, err, store.ErrUnavailable)
		require.ErrorContains(t, err, "password authentication failed")
		require.NotContains(t, err.Error(), "s3cret")
		return true
	})

	st, err := pgstore.Open(t.Context(), as("right"), pgstore.WithMigrate())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, st.Close()) })
	reserve(t, st, claim("before"), store.Acquired)
	require.NoError(t, srv.Stop())
	_, err = st.Find(t.Context(), claim("before").ID)
	require.ErrorIs(t, err, store.ErrUnavailable)
	require.ErrorIs(t, st.Check(t.Context()), store.ErrUnavailable)
	require.NoError(t, srv.Restart(t.Context()))
	reserve(t, st, claim("before"), store.InFlight)
	reserve(t, st, claim("after"), store.Acquired)
}
