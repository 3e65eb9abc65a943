package servertest_test

import (
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/redo-go/redo/servertest"
	"github.com/stretchr/testify/require"
)

// TestNoGoroutineIsLeft looks at stacks, since a count would see other tests' goroutines too. A synctest bubble proves
// the same of the server in memory: it does not end while a goroutine lives.
func TestNoGoroutineIsLeft(t *testing.T) {
	onBoth(t, func(t *testing.T, start func(testing.TB, ...servertest.Option) *servertest.Server) {
		srv := start(t, servertest.Bare(),
			servertest.Script("k1", servertest.OK(), servertest.SlowBody(time.Microsecond),
				servertest.DuplicateAtOnce(), servertest.ResetAfterEffect(), servertest.CloseAfterEffect(),
				servertest.TruncatedBody(0)))
		for range 6 {
			if resp, err := post(t, srv.Client(), srv.URL, "k1"); err == nil {
				_ = resp.Body.Close()
			}
		}
		srv.Close()
		// net/http ends its own goroutines after their connection is closed, and reports nothing: let them run.
		var left string
		for range 100_000 {
			if left = serverGoroutines(); left == "" {
				break
			}
			runtime.Gosched()
		}
		require.Empty(t, left)
	})
}

// serverGoroutines returns the stacks of goroutines that serve, or speak to, a server of this package.
func serverGoroutines() string {
	buf := make([]byte, 1<<20)
	var found []string
	for _, stack := range strings.Split(string(buf[:runtime.Stack(buf, true)]), "\n\n") {
		if strings.Contains(stack, "net/http.(*conn).serve") || strings.Contains(stack, "net/http.(*persistConn)") ||
			strings.Contains(stack, "servertest.(*") {
			found = append(found, stack)
		}
	}
	return strings.Join(found, "\n\n")
}
