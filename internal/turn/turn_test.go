package turn_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/internal/turn"
	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/memstore"
)

var task = store.ID{Scope: "turns", Key: "a"}

// due returns the minutes, up to the last, in which a process that tries each minute gets the turn.
func due(t *testing.T, st store.Store, p turn.Pace, last int) (minutes []int) {
	t.Helper()
	for minute := range last + 1 {
		lease, err := turn.Take(t.Context(), st, task, p)
		require.NoError(t, err)
		if lease != nil {
			minutes = append(minutes, minute)
		}
		time.Sleep(time.Minute)
	}
	return minutes
}

func TestTheWaitGrowsBetweenItsBounds(t *testing.T) {
	for name, c := range map[string]struct {
		pace turn.Pace
		want []int
	}{
		"twice as long each time, up to the most": {
			turn.Pace{Interval: time.Minute, Most: 4 * time.Minute}, []int{0, 1, 3, 7, 11, 15},
		},
		"never less than the least": {turn.Pace{
			Interval: time.Minute, Least: 5 * time.Minute, Most: time.Minute,
		}, []int{0, 5, 10, 15}},
		"an interval longer than the most": {turn.Pace{Interval: 6 * time.Minute, Most: time.Minute}, []int{0, 6, 12}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				require.Equal(t, c.want, due(t, memstore.New(), c.pace, 15))
			})
		})
	}
}

func TestAReleasedTurnIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, pace := memstore.New(), turn.Pace{Interval: time.Hour, Most: time.Hour}
		lease, err := turn.Take(t.Context(), st, task, pace)
		require.NoError(t, err)
		other, err := turn.Take(t.Context(), st, task, pace)
		require.NoError(t, err)
		require.Nil(t, other, "another process waits")
		require.NoError(t, st.Release(t.Context(), lease.Lease))
		lease, err = turn.Take(t.Context(), st, task, pace)
		require.NoError(t, err)
		require.NotNil(t, lease)
	})
}

// A store's failure is the caller's to report, and a lost race is none.
func TestWhatAStoreReturns(t *testing.T) {
	for _, c := range []struct {
		err, want error
	}{{store.ErrLost, nil}, {store.ErrUnavailable, store.ErrUnavailable}} {
		lease, err := turn.Take(t.Context(), failing{memstore.New(), c.err}, task, turn.Pace{Interval: time.Minute})
		require.Nil(t, lease)
		require.Equal(t, c.want, err)
	}
}

// failing is a store whose Extend fails.
type failing struct {
	store.Store
	err error
}

func (f failing) Extend(context.Context, store.Lease, time.Duration, []byte) error { return f.err }

// A deaf store does not respond to the writes that end a turn.
type deaf struct{ store.Store }

func (deaf) Extend(ctx context.Context, _ store.Lease, _ time.Duration, _ []byte) error {
	<-ctx.Done()
	return ctx.Err()
}

func (deaf) Release(ctx context.Context, _ store.Lease) error {
	<-ctx.Done()
	return ctx.Err()
}

// The work's context may have ended: the write is made all the same. A store that does not respond must not hold a
// process that wants to end.
func TestTheWriteThatEndsATurnOutlivesItsContextForABoundedTime(t *testing.T) {
	for name, end := range map[string]func(context.Context, *turn.Turn, store.Store) error{
		"Postpone": func(ctx context.Context, taken *turn.Turn, st store.Store) error {
			return taken.Postpone(ctx, st, time.Now().Add(time.Hour))
		},
		"Forget": func(ctx context.Context, taken *turn.Turn, st store.Store) error {
			taken.Forget(ctx, st)
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st, pace := memstore.New(), turn.Pace{Interval: time.Minute, Most: time.Minute}
				ended, cancel := context.WithCancel(t.Context())
				taken, err := turn.Take(ended, st, task, pace)
				require.NoError(t, err)
				cancel()
				start := time.Now()
				_ = end(ended, taken, deaf{st})
				require.Equal(t, 5*time.Second, time.Since(start))

				require.NoError(t, end(ended, taken, st))
				time.Sleep(2 * time.Minute)
				again, err := turn.Take(t.Context(), st, task, pace)
				require.NoError(t, err)
				require.Equal(t, name == "Postpone", again == nil)
			})
		})
	}
}

// The work may take longer than the server's hint. The next turn is then due.
func TestATimeThatHasPassedPostponesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, pace := memstore.New(), turn.Pace{Interval: time.Minute, Most: time.Minute}
		taken, err := turn.Take(t.Context(), st, task, pace)
		require.NoError(t, err)
		until := time.Now().Add(90 * time.Second)
		time.Sleep(2 * time.Minute)
		require.NoError(t, taken.Postpone(t.Context(), st, until))
		again, err := turn.Take(t.Context(), st, task, pace)
		require.NoError(t, err)
		require.NotNil(t, again)
	})
}
