package redo_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo"
	"github.com/redo-go/redo/servertest"
	"github.com/redo-go/redo/taxonomy"
)

// "Not applied" is a claim about the operation. A call that is refused before it sends anything knows nothing of the
// calls before it, unless it reads the record.
func TestARefusedCallMakesNoClaimAboutEarlierCalls(t *testing.T) {
	keyless := errors.New("the key service is down")
	for name, call := range map[string]func(t *testing.T, srv *servertest.Server, store redo.Option) error{
		"a closed client": func(t *testing.T, srv *servertest.Server, store redo.Option) error {
			client := connect(t, srv.Transport(), store)
			require.NoError(t, client.Close())
			_, err := client.Do(named(t, srv, "op", payment))
			return err
		},
		"a key function that fails": func(t *testing.T, srv *servertest.Server, store redo.Option) error {
			client := connect(t, srv.Transport(), store, redo.WithKeys(func(string) (string, error) { return "", keyless }))
			_, err := client.Do(named(t, srv, "op", payment))
			return err
		},
		"no key function": func(t *testing.T, srv *servertest.Server, store redo.Option) error {
			_, err := connect(t, srv.Transport(), store, redo.WithKeys(nil)).Do(named(t, srv, "op", payment))
			return err
		},
		"a malformed key of its own": func(t *testing.T, srv *servertest.Server, store redo.Option) error {
			req := named(t, srv, "op", payment)
			req.Header.Set("Idempotency-Key", "a, b")
			_, err := connect(t, srv.Transport(), store).Do(req)
			return err
		},
		"a profile without keys": func(t *testing.T, srv *servertest.Server, store redo.Option) error {
			client := connect(t, srv.Transport(), store, redo.WithProfile(redo.Profile{Name: "keyless", NoKeys: true}))
			_, err := client.Do(named(t, srv, "op", payment))
			return err
		},
		"an invalid policy": func(t *testing.T, srv *servertest.Server, store redo.Option) error {
			ctx := redo.WithPolicy(redo.WithOperation(t.Context(), "op"), redo.RetryPolicy{MaxAttempts: -1})
			_, err := connect(t, srv.Transport(), store).Do(post(t, ctx, srv.URL, payment))
			return err
		},
		"an invalid request": func(t *testing.T, srv *servertest.Server, store redo.Option) error {
			req := named(t, srv, "op", payment)
			req.URL.Host = ""
			_, err := connect(t, srv.Transport(), store).Do(req)
			return err
		},
		"a value that has no JSON": func(t *testing.T, srv *servertest.Server, store redo.Option) error {
			ctx := redo.WithOperation(t.Context(), "op")
			_, err := redo.Call[any](ctx, connect(t, srv.Transport(), store), "POST", srv.URL, make(chan int))
			return err
		},
		"a body that can't be read": func(t *testing.T, srv *servertest.Server, store redo.Option) error {
			req := named(t, srv, "op", payment)
			req.Body, req.GetBody = io.NopCloser(iotest.ErrReader(keyless)), nil
			_, err := connect(t, srv.Transport(), store).Do(req)
			return err
		},
		"a body that is too long to be read twice": func(t *testing.T, srv *servertest.Server, store redo.Option) error {
			req := named(t, srv, "op", payment)
			req.GetBody = nil
			_, err := connect(t, srv.Transport(), store, redo.WithMaxBufferedBody(1)).Do(req)
			return err
		},
	} {
		for _, applied := range []bool{true, false} {
			t.Run(name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					st := redo.WithStore(openStore(t))
					srv := servertest.NewInMemory(t)
					sent := 0
					if applied {
						lost := tripper(func(r *http.Request) (*http.Response, error) {
							resp, err := srv.Transport().RoundTrip(r)
							require.NoError(t, err)
							return nil, errors.Join(io.EOF, resp.Body.Close())
						})
						fail(t, connect(t, lost, st, redo.WithRetry(redo.RetryPolicy{MaxAttempts: 1})), named(t, srv, "op", payment))
						sent = 1
					}
					e := failure(t, call(t, srv, st))
					require.Len(t, srv.Requests(), sent)
					require.Equal(t, "op", e.Operation)
					want := redo.NotApplied
					if applied || errors.Is(e, keyless) && e.Code == taxonomy.KeyMalformed {
						want = redo.EffectUnknown // a function that fails may be one that derives the key
					}
					require.Equal(t, want, e.Effect)
				})
			})
		}
	}
}

// The same without a store: only the key shows that there may have been an earlier call.
func TestARefusedCallUnderALastingKeyLeavesTheEffectUnknown(t *testing.T) {
	for name, c := range map[string]struct {
		ctx    func(context.Context) context.Context
		keys   redo.KeyFunc
		effect redo.Effect
	}{
		"a given key": {
			func(ctx context.Context) context.Context { return redo.WithKey(ctx, "k1") }, redo.TimeOrderedKeys,
			redo.EffectUnknown,
		},
		"a derived key": {
			func(ctx context.Context) context.Context { return redo.WithOperation(ctx, "op") }, redo.DerivedKeys("live"),
			redo.EffectUnknown,
		},
		"a key of this call alone": {
			func(ctx context.Context) context.Context { return ctx }, redo.TimeOrderedKeys, redo.NotApplied,
		},
	} {
		t.Run(name, func(t *testing.T) {
			srv := servertest.NewInMemory(t)
			client := connect(t, srv.Transport(), redo.WithKeys(c.keys))
			unreadable := post(t, c.ctx(t.Context()), srv.URL, "")
			unreadable.Body, unreadable.GetBody = io.NopCloser(iotest.ErrReader(io.ErrUnexpectedEOF)), nil
			require.Equal(t, c.effect, fail(t, client, unreadable).Effect)
			require.NoError(t, client.Close())
			require.Equal(t, c.effect, fail(t, client, post(t, c.ctx(t.Context()), srv.URL, payment)).Effect)
			require.Empty(t, srv.Requests())
		})
	}
}

// A body may end with the context that it comes from, such as that of a request that is passed on.
func TestACallerWhoGivesUpWhileTheBodyIsReadIsNoInvalidRequest(t *testing.T) {
	for name, option := range map[string]redo.Option{
		"stored": redo.WithStore(openStore(t)), "not stored": redo.WithKeys(redo.DerivedKeys("live")),
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(redo.WithOperation(t.Context(), name), time.Millisecond)
			defer cancel()
			client := connect(t, http.DefaultTransport, option)
			req := post(t, ctx, "http://bank.test", "")
			req.GetBody, req.Body = nil, io.NopCloser(readerFunc(func([]byte) (int, error) {
				<-ctx.Done()
				return 0, ctx.Err()
			}))
			e := fail(t, client, req)
			require.ErrorIs(t, e, taxonomy.CallerDeadline)
			require.True(t, redo.SafeToRetry(e))
		})
	}
}

// A body may stall for ever. Some bodies end a read when they are closed. Others, such as the body of a server's request,
// hold Close back until the read ends.
func TestABodyThatStallsEndsWithTheCaller(t *testing.T) {
	for kind, holds := range map[string]bool{"Close ends the read": false, "Close waits for the read": true} {
		for _, stored := range []bool{true, false} {
			t.Run(fmt.Sprint(kind, ", stored ", stored), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					option := redo.WithKeys(redo.DerivedKeys("live"))
					if stored {
						option = redo.WithStore(openStore(t))
					}
					ctx, cancel := context.WithTimeout(redo.WithOperation(t.Context(), "op"), time.Minute)
					defer cancel()
					body := &stalledBody{holds: holds, ended: make(chan struct{})}
					req := post(t, ctx, "http://bank.test", "")
					req.GetBody, req.Body = nil, body
					e := fail(t, connect(t, http.DefaultTransport, option), req)
					require.ErrorIs(t, e, taxonomy.CallerDeadline)
					require.True(t, redo.SafeToRetry(e))
					synctest.Wait()
					require.True(t, body.closed.Load())
					if holds {
						close(body.ended)
					}
				})
			})
		}
	}
}

// A stalledBody never yields a byte.
type stalledBody struct {
	holds  bool // Close waits for the read
	ended  chan struct{}
	closed atomic.Bool
}

func (b *stalledBody) Read([]byte) (int, error) {
	<-b.ended
	return 0, errors.New("the read has ended")
}

func (b *stalledBody) Close() error {
	switch first := b.closed.CompareAndSwap(false, true); {
	case b.holds:
		<-b.ended
	case first:
		close(b.ended)
	}
	return nil
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }
