package pgoutbox_test

import (
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/store"
)

// The driver calls it safe to retry, and says the same of a statement that was sent as text and whose answer was lost.
func TestClosedConnectionTellsNothingOfAWrite(t *testing.T) {
	q, pool := newPlace(t).open(t)
	conn, err := pool.Acquire(t.Context())
	require.NoError(t, err)
	defer conn.Release()
	require.NoError(t, conn.Conn().Close(t.Context()))
	_, err = conn.Exec(t.Context(), "SELECT 1")
	require.ErrorIs(t, err, pgconn.ErrConnClosed)
	require.True(t, pgconn.SafeToRetry(err))

	again, failure := q.Verdict(t.Context(), err, true)
	require.False(t, again)
	require.ErrorIs(t, failure, store.ErrUnknown)
	again, failure = q.Verdict(t.Context(), err, false)
	require.True(t, again)
	require.ErrorIs(t, failure, store.ErrUnavailable)
	require.NotErrorIs(t, failure, store.ErrUnknown)
}
