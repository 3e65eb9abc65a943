package redisstore_test

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/rueidis"
	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/redisstore"
	"github.com/stretchr/testify/require"
)

// A gate dials. While it is shut, it holds the caller that dials until that caller's context ends.
type gate struct {
	shut   atomic.Bool
	failed func(context.Context, error) error // the error of such a caller

	mu   sync.Mutex
	last net.Conn
}

func (g *gate) dial(ctx context.Context, dst string, d *net.Dialer, _ *tls.Config) (net.Conn, error) {
	if g.shut.Swap(false) {
		<-ctx.Done()
		_, err := d.DialContext(ctx, "tcp", dst)
		return nil, g.failed(ctx, err)
	}
	c, err := d.DialContext(ctx, "tcp", dst)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.last = c
	return c, err
}

// breakDown ends the connection, so that the next call dials.
func (g *gate) breakDown() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.last.Close()
}

// A call that waits for a connection which another caller dials does not fail if that caller's context ends.
func TestAnotherCallerGivesUp(t *testing.T) {
	url := sharedURL(t)
	for _, c := range []struct {
		rule   string
		end    func(context.Context) (context.Context, context.CancelFunc)
		failed func(context.Context, error) error
		want   error
	}{
		{
			"while the connection is made", context.WithCancel,
			func(_ context.Context, err error) error { return err }, context.Canceled,
		},
		{
			"while it is made secure", context.WithCancel,
			func(ctx context.Context, _ error) error { return ctx.Err() }, context.Canceled,
		},
		{"by a deadline", func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, time.Minute)
		}, func(_ context.Context, err error) error { return err }, context.DeadlineExceeded},
	} {
		for name, call := range map[string]func(context.Context, *redisstore.Store) error{
			"Reserve": func(ctx context.Context, st *redisstore.Store) error {
				_, err := st.Reserve(ctx, claim("k"))
				return err
			},
			"Find": func(ctx context.Context, st *redisstore.Store) error {
				_, err := st.Find(ctx, store.ID{Key: "absent"})
				return err
			},
		} {
			t.Run(c.rule+", "+name, func(t *testing.T) {
				p := prefix(t, url)
				synctest.Test(t, func(t *testing.T) {
					o, err := rueidis.ParseURL(url)
					require.NoError(t, err)
					g := &gate{failed: c.failed}
					o.DisableCache, o.DialCtxFn = true, g.dial
					// One connection, which notices that it is broken.
					o.AlwaysPipelining, o.PipelineMultiplex = true, -1
					cl, err := rueidis.NewClient(o)
					require.NoError(t, err)
					defer cl.Close()
					st, err := redisstore.New(t.Context(), cl, redisstore.WithPrefix(p))
					require.NoError(t, err)
					defer st.Close()

					g.shut.Store(true)
					g.breakDown()
					synctest.Wait()
					first, giveUp := c.end(t.Context())
					defer giveUp()
					var calls sync.WaitGroup
					var got [9]error
					calls.Go(func() { got[0] = call(first, st) })
					synctest.Wait() // it dials
					for i := range got[1:] {
						calls.Go(func() { got[1+i] = call(t.Context(), st) })
					}
					synctest.Wait() // they wait for it
					if errors.Is(c.want, context.Canceled) {
						giveUp()
					}
					calls.Wait()
					require.ErrorIs(t, got[0], c.want)
					for _, err := range got[1:] {
						if name == "Find" {
							require.Equal(t, store.ErrNotFound, err)
						} else {
							require.NoError(t, err)
						}
					}
				})
			})
		}
	}
}
