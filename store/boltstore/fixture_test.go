package boltstore

import (
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redo-go/redo/internal/hangtest"
	"github.com/redo-go/redo/store"
	"github.com/stretchr/testify/require"
	"go.etcd.io/bbolt"
)

// withCommit puts f in the place of a transaction's Commit.
func withCommit(f func(*bbolt.Tx) error) Option {
	return option(func(c *config) error { c.commit = f; return nil })
}

// LosingResponses makes each commit fail after it was made while lost is true. The contract's tests use it.
func LosingResponses(lost *atomic.Bool) Option {
	return withCommit(func(tx *bbolt.Tx) error {
		if lost.Load() {
			return betray(tx)
		}
		return tx.Commit()
	})
}

func withClock(read func() (int64, time.Duration)) Option {
	return option(func(c *config) error { c.clock = read; return nil })
}

func tempFile(t testing.TB) string { return filepath.Join(t.TempDir(), "test.redo") }

func mustOpen(t testing.TB, path string, opts ...Option) *Store {
	t.Helper()
	var s *Store
	require.NoError(t, hangtest.Within(t, func() (err error) {
		s, err = Open(path, opts...)
		return err
	}))
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
	require.NoError(t, hangtest.Within(t, func() error {
		for r, err := range s.Pending(t.Context(), scope) {
			if err != nil {
				return err
			}
			keys = append(keys, r.ID.Key)
		}
		return nil
	}))
	return keys
}
