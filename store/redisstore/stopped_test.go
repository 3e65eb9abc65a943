package redisstore_test

import (
	"context"
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/redisstore"
	"github.com/stretchr/testify/require"
)

// A server that is stopped accepts connections and replies to nothing. No call outlasts its context by more than the
// second in which Reserve gives a claim up.
func TestAStoppedServerHoldsNoCallLongerThanItsContext(t *testing.T) {
	for _, warm := range []bool{false, true} {
		t.Run(fmt.Sprint("with an open connection: ", warm), func(t *testing.T) {
			primary := privateEngine(t)
			privateReplica(t, primary)
			st := open(t, primary.url(), redisstore.WithReplicas(1, patience))
			l := store.Lease{ID: claim("begun").ID, Fence: 1}
			if warm {
				l = acquire(t, st, claim("begun")).Lease
			}
			require.NoError(t, primary.cmd.Process.Signal(syscall.SIGSTOP))
			defer func() { require.NoError(t, primary.cmd.Process.Signal(syscall.SIGCONT)) }()
			for name, call := range map[string]func(ctx context.Context) error{
				"reserve":  func(ctx context.Context) error { _, err := st.Reserve(ctx, claim("k")); return err },
				"complete": func(ctx context.Context) error { return st.Complete(ctx, l, store.Outcome{}) },
			} {
				for _, deadline := range []bool{false, true} {
					ctx, cancel := context.WithCancel(t.Context())
					want := context.Canceled
					if deadline {
						ctx, cancel = context.WithTimeout(t.Context(), 200*time.Millisecond)
						want = context.DeadlineExceeded
					} else {
						time.AfterFunc(200*time.Millisecond, cancel)
					}
					begun := time.Now()
					err := call(ctx)
					cancel()
					require.ErrorIs(t, err, want, name)
					require.Less(t, time.Since(begun), 2*time.Second, name)
				}
			}
		})
	}
}
