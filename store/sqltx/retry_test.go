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
