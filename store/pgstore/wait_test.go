package pgstore

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/store"
)

// A pool that is full of running handlers is asked for nothing in the name of waiters that have gone: what they had asked for
// would stand before the next request in the line for a connection.
func TestLookEndsWithTheLastWaiter(t *testing.T) {
	url, schema := TestServer(t)
	cfg, err := pgxpool.ParseConfig(url)
	require.NoError(t, err)
	cfg.MaxConns = 1
	pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	s, err := New(pool, WithSchema(schema))
	require.NoError(t, err)
	require.NoError(t, s.Migrate(t.Context()))
	c := store.Claim{ID: store.ID{Key: "k"}, Retention: time.Hour}
	tx, g, err := s.Begin(t.Context(), c)
	require.NoError(t, err)
	require.Equal(t, store.Acquired, g.Verdict)

	for range 3 {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		require.ErrorIs(t, s.Wait(ctx, c.ID, 0), context.DeadlineExceeded)
		cancel()
	}
	ended := make(chan struct{})
	go func() {
		s.polls.running.Wait()
		close(ended)
	}()
	select {
	case <-ended:
	case <-time.After(lookLimit / 2):
		t.Error("somebody still looks")
	}
	require.NoError(t, tx.Rollback(t.Context()))
	require.NoError(t, s.Close())
	<-ended
}
