package outbox_test

import (
	"context"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo"
	"github.com/redo-go/redo/outbox"
	"github.com/redo-go/redo/taxonomy"
)

// respond returns the error of a response that requests a wait.
func respond(status int, wait time.Duration) error {
	code := taxonomy.Unavailable
	if status == http.StatusTooManyRequests {
		code = taxonomy.RateLimited
	}
	return &redo.Error{Code: code, StatusCode: status, RetryAt: time.Now().Add(wait)}
}

// A slower attempt that began before the rest succeeds during it. The wait of a 429 is for the destination, that of a
// 503 only for its event.
func TestASuccessEndsNoRestThatTheDestinationRequested(t *testing.T) {
	for status, tries := range map[int]int64{429: 2, 503: 100} {
		for _, breaker := range []int{1, outbox.DefaultBreaker} {
			inBubble(t, func(g *rig) {
				g.fill("d", 100, unordered)
				var begun atomic.Int64
				defer g.relay(g.queue, func(context.Context, outbox.Event) error {
					if begun.Add(1) == 1 {
						return respond(status, 10*time.Minute)
					}
					time.Sleep(10 * time.Millisecond)
					return nil
				}, outbox.PerDestination(2), outbox.Breaker(breaker))()
				time.Sleep(9 * time.Minute)
				require.EqualValues(g, tries, begun.Load(), "status %d, breaker %d", status, breaker)
				time.Sleep(10 * time.Minute)
				synctest.Wait()
				g.stats(0, 0)
			})
		}
	}
}

func TestEnableEndsARestThatTheDestinationRequested(t *testing.T) {
	inBubble(t, func(g *rig) {
		g.fill("d", 3, unordered)
		var begun atomic.Int64
		r, err := outbox.NewRelay(g.queue, outbox.PublisherFunc(func(context.Context, outbox.Event) error {
			if begun.Add(1) == 1 {
				return respond(429, time.Hour)
			}
			return nil
		}), outbox.PerDestination(1))
		require.NoError(g, err)
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() { ended <- r.Run(ctx) }()
		defer func() {
			cancel()
			require.NoError(g, <-ended)
		}()
		time.Sleep(time.Minute)
		require.EqualValues(g, 1, begun.Load())
		require.NoError(g, r.Enable(ctx, "d"))
		time.Sleep(time.Minute)
		require.EqualValues(g, 3, begun.Load())
	})
}
