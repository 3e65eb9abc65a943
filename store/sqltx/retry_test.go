package sqltx_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/sqltx"
)

func TestPauseDoublesUpToABound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for attempt, want := range map[int]int64{0: 1, 1: 2, 5: 32, 6: 32, 1000: 32} {
			start := time.Now()
			require.NoError(t, sqltx.Pause(t.Context(), attempt))
			require.Equal(t, want, time.Since(start).Milliseconds())
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		require.ErrorIs(t, sqltx.Pause(ctx, 5), context.Canceled)
	})
}

func TestRepeatEndsWithTheFinalError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		busy, final := errors.New("busy"), errors.New("final")
		start, calls := time.Now(), 0
		require.ErrorIs(t, sqltx.Repeat(t.Context(), func() (bool, error) {
			if calls++; calls < 3 {
				return true, busy
			}
			return false, final
		}), final)
		require.Equal(t, 3, calls)
		require.Equal(t, 3*time.Millisecond, time.Since(start), "it pauses after each of the first two")
		require.NoError(t, sqltx.Repeat(t.Context(), func() (bool, error) { return false, nil }))
	})
}

func TestRepeatEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	calls := 0
	again := func() (bool, error) {
		calls++
		cancel()
		return true, errors.New("busy")
	}
	require.ErrorIs(t, sqltx.Repeat(ctx, again), context.Canceled)
	require.ErrorIs(t, sqltx.Repeat(ctx, again), context.Canceled)
	require.Equal(t, 1, calls)
}

func TestErrorsOfTheContractAreTranslated(t *testing.T) {
	require.True(t, sqltx.Translated(nil))
	require.True(t, sqltx.Translated(fmt.Errorf("k: %w", store.ErrLost)))
	require.False(t, sqltx.Translated(errors.New("of the driver")))
	require.False(t, sqltx.Translated(context.Canceled))
}

func TestStateOfAnOutcome(t *testing.T) {
	require.EqualValues(t, store.StateComplete, sqltx.State(store.Outcome{}))
	require.EqualValues(t, store.StateFailed, sqltx.State(store.Outcome{Failed: true}))
}

// A context that ends while another program has a lock would otherwise be the whole error.
func TestRepeatNamesTheObstacleThatTheContextOutlasted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		busy := fmt.Errorf("database is locked: %w", store.ErrUnavailable)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err := sqltx.Repeat(ctx, func() (bool, error) { return true, busy })
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorContains(t, err, "database is locked")
		require.NotErrorIs(t, err, store.ErrUnavailable, "the caller's context ended, and not the store")
		calls := 0
		err = sqltx.Repeat(ctx, func() (bool, error) {
			calls++
			return true, busy
		})
		require.Equal(t, context.DeadlineExceeded, err, "there was no attempt")
		require.Zero(t, calls)
	})
}
