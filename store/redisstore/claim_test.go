package redisstore_test

import (
	"testing"
	"time"

	"github.com/redo-go/redo/store"
	"github.com/stretchr/testify/require"
)

// claim excludes for longer than any test runs.
func claim(key string) store.Claim {
	return store.Claim{
		ID:          store.ID{Scope: "scope", Key: key},
		Fingerprint: store.Raw("POST", "/refunds", "", []byte("payload")),
		Lease:       time.Hour,
		Retention:   24 * time.Hour,
		Meta:        []byte("meta"),
	}
}

// acquire makes a claim that must be granted.
func acquire(t *testing.T, st store.Store, c store.Claim) store.Grant {
	t.Helper()
	g, err := st.Reserve(t.Context(), c)
	require.NoError(t, err)
	require.Equal(t, store.Acquired, g.Verdict)
	return g
}

// keysOf returns the keys of a server that match.
func keysOf(t *testing.T, url, pattern string) []string {
	t.Helper()
	return scan(t.Context(), t, client(t, url), pattern)
}
