package redo_test

import (
	"context"
	"io"
	"net/http"
	"runtime"
	"runtime/pprof"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo"
	"github.com/redo-go/redo/servertest"
	"github.com/redo-go/redo/taxonomy"
)

// The tests in synctest bubbles fail for every goroutine that is left behind. This is the same over sockets, with
// the client's own transport.
func TestNoGoroutineIsLeftBehindOnSockets(t *testing.T) {
	before := runtime.NumGoroutine()
	t.Run("calls", func(t *testing.T) {
		srv := servertest.New(t, servertest.Script("fails", servertest.Status(503), servertest.Status(503)),
			servertest.Script("reset", servertest.ResetAfterEffect()),
			servertest.Script("hangs", servertest.Delay(time.Minute)),
			servertest.Script("cut off", servertest.TruncatedBody(3)), servertest.Lenient())
		client, err := redo.New(redo.WithStore(openStore(t)),
			redo.WithRetry(redo.RetryPolicy{MaxAttempts: 2, Jitter: redo.NoDelay}))
		require.NoError(t, err)
		var group sync.WaitGroup
		for _, name := range []string{"fails", "reset", "hangs", "cut off", "works", "works as well", "is not read"} {
			group.Go(func() {
				ctx := redo.WithKey(redo.WithOperation(t.Context(), name), name)
				if name == "hangs" {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, 50*time.Millisecond)
					defer cancel()
				}
				req, err := http.NewRequestWithContext(ctx, http.MethodPost, srv.URL, strings.NewReader(payment))
				if err != nil {
					t.Error(err)
					return
				}
				resp, err := client.Do(req)
				if (err != nil) != (name == "fails" || name == "hangs") {
					t.Errorf("%s: %v", name, err)
				}
				if err == nil && name != "is not read" {
					_, _ = io.Copy(io.Discard, resp.Body)
				}
				if err == nil {
					_ = resp.Body.Close()
				}
			})
		}
		group.Wait()
		require.NoError(t, client.Close())
		srv.Close()
	})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for runtime.NumGoroutine() > before {
		if ctx.Err() != nil {
			var stacks strings.Builder
			_ = pprof.Lookup("goroutine").WriteTo(&stacks, 1)
			t.Fatalf("%d goroutines, %d before:\n%s", runtime.NumGoroutine(), before, stacks.String())
		}
		runtime.Gosched()
	}
}

func TestALongRedirectThatIsRetriedLeavesNoBodyOpen(t *testing.T) {
	var bodies []*watchedBody
	client := connect(t, tripper(func(r *http.Request) (*http.Response, error) {
		body := &watchedBody{Reader: strings.NewReader(strings.Repeat("x", 100_000))}
		bodies = append(bodies, body)
		resp := answer(r, http.StatusFound, "", "Location", "https://maintenance.test/")
		resp.Body, resp.ContentLength = body, 100_000
		return resp, nil
	}), redo.WithRetry(redo.RetryPolicy{MaxAttempts: 3, Jitter: redo.NoDelay}),
		redo.WithClassifier(func(_ *http.Response, _ []byte, v taxonomy.Verdict) taxonomy.Verdict {
			return taxonomy.Verdict{Code: taxonomy.Unavailable, Class: taxonomy.ClassTransient}
		}))
	resp, err := client.Do(post(t, t.Context(), "http://api.test/", payment))
	require.NoError(t, err)
	require.Equal(t, 100_000, len(drain(t, resp)))
	require.Len(t, bodies, 3)
	for _, body := range bodies {
		require.Equal(t, int32(1), body.closed.Load())
	}
}

func TestOneClientServesManyGoroutines(t *testing.T) {
	srv := servertest.New(t, servertest.ScriptEach(servertest.Status(503)))
	client, err := redo.New(redo.WithRetry(redo.RetryPolicy{BaseDelay: time.Millisecond}))
	require.NoError(t, err)
	defer func() { require.NoError(t, client.Close()) }()
	header := http.Header{"X-Shared": {"1"}} // one map for all requests
	var group sync.WaitGroup
	for range 32 {
		group.Go(func() {
			req := post(t, t.Context(), srv.URL, payment)
			req.Header = header
			resp, err := client.Do(req)
			if err != nil {
				t.Error(err)
				return
			}
			if drain(t, resp); redo.KeyOf(resp) == "" {
				t.Error("no key")
			}
		})
	}
	group.Wait()
	require.Equal(t, 32, srv.Ledger().Total())
	require.Empty(t, srv.Ledger().Duplicates())
	require.Equal(t, http.Header{"X-Shared": {"1"}}, header)
}
