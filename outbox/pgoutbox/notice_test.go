package pgoutbox

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
)

func TestTransactionsNotifyRarely(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var outside atomic.Int64
		n := &notices{send: func(context.Context) { outside.Add(1) }}
		inside := func(count int, every time.Duration) (notified int) {
			for range count {
				if n.inside() {
					notified++
				}
				time.Sleep(every)
			}
			return notified
		}
		require.Equal(t, 100, inside(100, noticePause), "a quiet process notifies immediately")
		require.Zero(t, outside.Load())
		time.Sleep(time.Hour)
		require.Equal(t, noticeBurst, inside(1000, 0))
		synctest.Wait()
		require.Zero(t, outside.Load())
		time.Sleep(noticePause)
		synctest.Wait()
		require.EqualValues(t, 1, outside.Load(), "one for all that did not notify")
		time.Sleep(time.Hour)
		require.Equal(t, 119, inside(1000, noticePause/10), "the burst, and one in each pause")
	})
}

// A notification outside of a transaction is sent at once while one of the burst is left, and otherwise after the pause.
func TestNotificationOutsideOfATransactionIsPaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sent := make(chan time.Time)
		n := &notices{send: func(context.Context) { sent <- time.Now() }}
		start := time.Now()
		n.outside()
		require.Equal(t, start, <-sent)
		for n.inside() { // until the burst is used up
		}
		for _, after := range []time.Duration{noticePause, noticePause, 2 * noticePause} { // each pause adds one
			require.Equal(t, start.Add(after), <-sent)
			n.outside()
		}
		<-sent
	})
}

func TestSilentQueueNeverNotifies(t *testing.T) {
	pool, err := pgxpool.New(t.Context(), "host=127.0.0.1 port=1") // it connects later
	require.NoError(t, err)
	defer pool.Close()
	silent, err := New(pool, WithoutNotify())
	require.NoError(t, err)
	require.False(t, silent.notices.inside())
	silent.notices.outside()
	require.False(t, silent.notices.late, "no notification is planned")
	other, err := New(pool)
	require.NoError(t, err)
	require.True(t, other.notices.inside())
}
