package pebblestore

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/internal/hangtest"
	"github.com/redo-go/redo/store"
)

func withClock(read func() (int64, time.Duration)) Option {
	return option(func(c *config) error { c.clock = read; return nil })
}

func withFS(fs vfs.FS) Option {
	return option(func(c *config) error { c.fs = fs; return nil })
}

func withMaxBatch(bytes int) Option {
	return option(func(c *config) error { c.maxBatch = bytes; return nil })
}

func tempDir(t testing.TB) string { return filepath.Join(t.TempDir(), "test.redo") }

func mustOpen(t testing.TB, path string, opts ...Option) *Store {
	t.Helper()
	s, err := Open(path, opts...)
	require.NoError(t, err)
	t.Cleanup(func() { _ = hangtest.Within(t, s.Close) })
	return s
}

func claim(key string) store.Claim {
	return store.Claim{
		ID:          store.ID{Scope: "scope", Key: key},
		Fingerprint: store.Raw("POST", "/refunds", "", []byte("body")),
		Lease:       time.Hour,
		Retention:   24 * time.Hour,
		Meta:        []byte("meta of " + key),
	}
}

func mustReserve(t testing.TB, s *Store, c store.Claim, want store.Verdict) store.Grant {
	t.Helper()
	var g store.Grant
	require.NoError(t, hangtest.Within(t, func() (err error) {
		g, err = s.Reserve(t.Context(), c)
		return err
	}))
	require.Equal(t, want.String(), g.Verdict.String())
	return g
}

func mustSettle(t testing.TB, s *Store, key string, o store.Outcome) store.Lease {
	t.Helper()
	g := mustReserve(t, s, claim(key), store.Acquired)
	require.NoError(t, s.Complete(t.Context(), g.Lease, o))
	return g.Lease
}

func pendingKeys(t testing.TB, s *Store, scope string) []string {
	t.Helper()
	var keys []string
	for r, err := range s.Pending(t.Context(), scope) {
		require.NoError(t, err)
		keys = append(keys, r.ID.Key)
	}
	return keys
}
