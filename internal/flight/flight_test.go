package flight_test

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/internal/flight"
)

func TestCallersOfOneNameShareOneCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var group flight.Group[string]
		require.False(t, group.UnderWay("a"))
		f, first := group.Join("a")
		require.True(t, first)
		require.True(t, group.UnderWay("a"))

		results := make(chan string, 2)
		for range 2 {
			go func() {
				waiting, first := group.Join("a")
				if first {
					t.Error("a second call was made")
				}
				<-waiting.Done
				results <- waiting.Result
			}()
		}
		synctest.Wait()
		require.Empty(t, results, "they wait")
		group.Leave("a", f, "done")
		require.Equal(t, "done", <-results)
		require.Equal(t, "done", <-results)
		require.False(t, group.UnderWay("a"))

		again, first := group.Join("a")
		require.True(t, first, "a later caller makes a new call")
		group.Leave("a", again, "")
	})
}

// The twin: callers of other names do not wait.
func TestCallersOfOtherNamesMakeTheirOwnCalls(t *testing.T) {
	var group flight.Group[int]
	a, first := group.Join("a")
	require.True(t, first)
	b, first := group.Join("b")
	require.True(t, first)
	again, first := group.Join("a")
	require.False(t, first)
	require.Same(t, a, again)
	group.Leave("a", a, 1)
	require.True(t, group.UnderWay("b"))
	group.Leave("b", b, 2)
	require.Equal(t, []int{1, 2}, []int{a.Result, b.Result})
}
