package redisstore_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/redisstore"
	"github.com/stretchr/testify/require"
)

// The test binary is the process that is paused if pausedURL is set.
const (
	pausedURL    = "REDISSTORE_TEST_PAUSED"
	pausedPrefix = "REDISSTORE_TEST_PAUSED_PREFIX"
)

// pausedLease is short, because the test waits until it has ended.
const pausedLease = 300 * time.Millisecond

// workPaused claims an ID, waits for a line on the standard input, and completes the record. It reports whether each
// of the calls that follow found the lease lost.
func workPaused() error {
	ctx := context.Background()
	st, err := redisstore.Open(ctx, os.Getenv(pausedURL), redisstore.WithPrefix(os.Getenv(pausedPrefix)))
	if err != nil {
		return err
	}
	c := claim("k")
	c.Lease = pausedLease
	g, err := st.Reserve(ctx, c)
	if err != nil {
		return err
	}
	fmt.Println(g.Verdict)
	if _, err := bufio.NewReader(os.Stdin).ReadString('\n'); err != nil {
		return err
	}
	for _, err := range []error{
		st.Complete(ctx, g.Lease, store.Outcome{Result: []byte("late")}),
		st.Extend(ctx, g.Lease, time.Hour, nil),
		st.Release(ctx, g.Lease),
	} {
		fmt.Println("lost", errors.Is(err, store.ErrLost))
	}
	return st.Close()
}

// A process is stopped for longer than its lease, and another one takes its record over. The late writes of the first
// one change nothing, and each reports the loss.
func TestAPausedProcessIsFencedOff(t *testing.T) {
	for _, settled := range []bool{true, false} {
		t.Run(fmt.Sprint("settled is ", settled), func(t *testing.T) {
			url := sharedURL(t)
			p := prefix(t, url)
			st := open(t, url, redisstore.WithPrefix(p))
			cmd := exec.Command(os.Args[0])
			cmd.Env = append(os.Environ(), pausedURL+"="+url, pausedPrefix+"="+p)
			cmd.Stderr = os.Stderr
			stdin, err := cmd.StdinPipe()
			require.NoError(t, err)
			stdout, err := cmd.StdoutPipe()
			require.NoError(t, err)
			require.NoError(t, cmd.Start())
			t.Cleanup(func() { _ = cmd.Process.Kill() }) // SIGKILL ends a stopped process too
			lines := bufio.NewScanner(stdout)
			require.True(t, lines.Scan())
			require.Equal(t, "acquired", lines.Text())

			require.NoError(t, cmd.Process.Signal(syscall.SIGSTOP))
			require.Eventually(t, func() bool {
				r, err := st.Find(t.Context(), claim("k").ID)
				return err == nil && r.LeaseLeft() == 0
			}, patience, poll)
			g, err := st.Reserve(t.Context(), claim("k"))
			require.NoError(t, err)
			require.Equal(t, store.TakenOver, g.Verdict)
			if settled {
				require.NoError(t, st.Complete(t.Context(), g.Lease, store.Outcome{Result: []byte("in time")}))
			}
			before := mustFind(t, st, claim("k").ID)

			require.NoError(t, cmd.Process.Signal(syscall.SIGCONT))
			_, err = io.WriteString(stdin, "go on\n")
			require.NoError(t, err)
			for range 3 {
				require.True(t, lines.Scan())
				require.Equal(t, "lost true", lines.Text())
			}
			require.NoError(t, cmd.Wait())
			after := mustFind(t, st, claim("k").ID)
			after.ReadAt = before.ReadAt
			require.Equal(t, before, after)
		})
	}
}
