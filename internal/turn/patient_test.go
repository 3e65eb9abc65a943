package turn_test

import (
	"context"
	"iter"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/internal/turn"
	"github.com/redo-go/redo/store"
)

// stalling lists n numbers, each after the pause, and then does not go on until its context ends.
func stalling(n int, pause time.Duration) func(context.Context) iter.Seq2[int, error] {
	return func(ctx context.Context) iter.Seq2[int, error] {
		return func(yield func(int, error) bool) {
			for i := range n {
				time.Sleep(pause)
				if !yield(i, ctx.Err()) {
					return
				}
			}
			<-ctx.Done()
			yield(0, ctx.Err())
		}
	}
}

func TestAListThatStallsEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start, n := time.Now(), 0
		var last error
		for _, err := range turn.Patient(t.Context(), stalling(3, 20*time.Second)) {
			if n++; n <= 3 {
				require.NoError(t, err, "a slow list goes on")
				time.Sleep(time.Hour) // the time of the body does not count
			}
			last = err
		}
		require.Equal(t, 4, n)
		require.ErrorIs(t, last, store.ErrUnavailable)
		require.Equal(t, 3*(20*time.Second+time.Hour)+30*time.Second, time.Since(start))
	})
}

func TestAListEndsWithItsContextAndItsLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		for _, err := range turn.Patient(ctx, stalling(0, 0)) {
			require.ErrorIs(t, err, context.DeadlineExceeded)
		}
		for i := range turn.Patient(t.Context(), stalling(3, time.Second)) {
			require.Zero(t, i)
			break
		}
	})
}
