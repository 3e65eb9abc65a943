package server_test

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/server"
	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/memstore"
)

// diesAfter serves one request whose process dies after run has called its functions, and moves past the lease.
func diesAfter(t *testing.T, mem *memstore.Store, run http.HandlerFunc, opts ...server.Option) {
	t.Helper()
	st := newFaultsOver(mem)
	g := newRig(t, st, func(w http.ResponseWriter, r *http.Request) {
		run(w, r)
		st.mu.Lock()
		st.on = func(string, int, func() error) error { return store.ErrUnavailable }
		st.mu.Unlock()
		created(w, r)
	}, opts...)
	requireProblem(t, g.do(), 503, "DEPENDENCY.unavailable")
	g.shutdown()
	time.Sleep(server.DefaultLeaseTTL)
}

func TestApplied(t *testing.T) {
	mark := func(_ http.ResponseWriter, r *http.Request) { applied(r.Context()) }
	for rule, opts := range map[string][]server.Option{
		"Reexecute": nil, "Refuse": {server.TakeOver(server.Refuse())},
	} {
		t.Run("a process that dies after it never lets the handler run again: "+rule, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				mem := memstore.New()
				diesAfter(t, mem, mark)
				g := newRig(t, mem, nil, opts...)
				for range 3 {
					requireProblem(t, g.do(), 409, "CONFLICT.idempotency.outcome_unknown")
					time.Sleep(time.Hour)
				}
				require.Zero(t, g.ran())
			})
		})
	}
	t.Run("a process that dies without it lets the next request run the handler", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			mem := memstore.New()
			diesAfter(t, mem, func(_ http.ResponseWriter, r *http.Request) {
				require.NoError(t, server.Checkpoint(r.Context(), []byte("pay_1")))
			})
			requireStored(t, newRig(t, mem, nil).do(), 201, `{"id":"rf_123"}`)
		})
	})
	for _, rule := range []string{"before", "after", "beside"} {
		t.Run("Recover decides, and gets the checkpoint that was made "+rule+" it", func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				mem := memstore.New()
				diesAfter(t, mem, func(_ http.ResponseWriter, r *http.Request) {
					check := func() { require.NoError(t, server.Checkpoint(r.Context(), []byte("pay_1"))) }
					switch rule {
					case "before":
						check()
						applied(r.Context())
					case "after":
						applied(r.Context())
						check()
					default:
						var both sync.WaitGroup
						both.Go(check)
						both.Go(func() { applied(r.Context()) })
						both.Wait()
					}
				})
				requireProblem(t, newRig(t, mem, nil).do(), 409, "CONFLICT.idempotency.outcome_unknown")
				g := newRig(t, mem, nil, server.TakeOver(server.Recover(
					func(_ context.Context, _ *http.Request, _ string, meta []byte) (http.Handler, error) {
						require.Equal(t, "pay_1", string(meta))
						return nil, nil
					})))
				requireStored(t, g.do(), 201, `{"id":"rf_123"}`)
				require.Equal(t, 1, g.ran())
			})
		})
	}
	t.Run("a second owner that dies after it leaves the first one's checkpoint", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			mem := memstore.New()
			asked := 0
			policy := server.TakeOver(server.Recover(
				func(_ context.Context, _ *http.Request, _ string, meta []byte) (http.Handler, error) {
					require.Equal(t, "pay_1", string(meta))
					asked++
					return nil, nil
				}))
			diesAfter(t, mem, func(_ http.ResponseWriter, r *http.Request) {
				require.NoError(t, server.Checkpoint(r.Context(), []byte("pay_1")))
			})
			diesAfter(t, mem, mark, policy)
			requireProblem(t, newRig(t, mem, nil).do(), 409, "CONFLICT.idempotency.outcome_unknown")
			requireStored(t, newRig(t, mem, nil, policy).do(), 201, `{"id":"rf_123"}`)
			require.Equal(t, 2, asked)
		})
	})
	t.Run("its mark is durable before it returns, and once", func(t *testing.T) {
		st := newFaults(nil)
		g := newRig(t, st, func(w http.ResponseWriter, r *http.Request) {
			applied(r.Context())
			rec, err := st.Store.Find(t.Context(), refundID)
			require.NoError(t, err)
			require.Equal(t, []byte{1, 1}, rec.Meta)
			applied(r.Context())
			answer(500, "x")(w, r)
		})
		requireStored(t, g.do(), 500, "x")
		require.Equal(t, 1, st.count("Extend"))
	})
	t.Run("a store that fails for a moment is tried again, also after the handler's time", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			st := newFaults(func(method string, nth int, do func() error) error {
				if method == "Extend" && nth < 3 {
					return store.ErrUnavailable
				}
				return do()
			})
			g := newRig(t, st, func(w http.ResponseWriter, r *http.Request) {
				<-r.Context().Done()
				applied(r.Context())
				created(w, r)
			}, server.HandlerTimeout(time.Second))
			requireStored(t, g.do(), 201, `{"id":"rf_123"}`)
		})
	})
	t.Run("an error reports that the mark may not be durable, after StoreTimeout", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			g := newRig(t, newFaults(failing("Extend", store.ErrUnavailable)),
				func(_ http.ResponseWriter, r *http.Request) {
					start := time.Now()
					require.ErrorIs(t, server.Applied(r.Context()), store.ErrUnavailable)
					require.Equal(t, server.DefaultStoreTimeout, time.Since(start))
					panic("x")
				})
			require.Panics(t, func() { g.do() })
			requireProblem(t, g.do(), 409, "CONFLICT.idempotency.result_not_stored") // this process knows it
		})
	})
	t.Run("a lost lease is an error immediately", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			start := time.Now()
			g := newRig(t, newFaults(failing("Extend", store.ErrLost)), func(w http.ResponseWriter, r *http.Request) {
				require.ErrorIs(t, server.Applied(r.Context()), store.ErrLost)
				created(w, r)
			})
			g.do()
			require.Zero(t, time.Since(start))
		})
	})
	t.Run("after the handler has returned it marks only a key that waits for a new owner", func(t *testing.T) {
		for _, c := range []struct {
			run  http.HandlerFunc
			late error
			then int
		}{
			{created, store.ErrLost, 201},
			{answer(503, ""), store.ErrLost, 503},
			{after(server.Unknown, answer(504, "")), nil, 409},
		} {
			synctest.Test(t, func(t *testing.T) {
				var handler context.Context
				g := newRig(t, memstore.New(), func(w http.ResponseWriter, r *http.Request) {
					handler = r.Context()
					c.run(w, r)
				})
				g.do()
				require.ErrorIs(t, server.Applied(handler), c.late)
				time.Sleep(server.DefaultLeaseTTL)
				require.Equal(t, c.then, g.do().Code)
			})
		}
	})
	t.Run("a Checkpoint ends with its context", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			g := newRig(t, newFaults(failing("Extend", store.ErrUnavailable)),
				func(w http.ResponseWriter, r *http.Request) {
					start := time.Now()
					ctx, cancel := context.WithTimeout(r.Context(), 100*time.Millisecond)
					defer cancel()
					require.ErrorIs(t, server.Checkpoint(ctx, nil), store.ErrUnavailable)
					require.Equal(t, 100*time.Millisecond, time.Since(start))
					created(w, r)
				})
			requireStored(t, g.do(), 201, `{"id":"rf_123"}`)
		})
	})
	t.Run("the note of a newer version is 503 and runs nothing", func(t *testing.T) {
		for _, meta := range [][]byte{{2, 0}, {1}, {1, 4}, {1, 0, 'x'}, []byte("raw")} {
			mem := memstore.New()
			g := newRig(t, mem, nil)
			_, err := mem.Reserve(t.Context(), store.Claim{ID: refundID, Retention: time.Hour, Meta: meta,
				Fingerprint: store.Raw(http.MethodPost, "/refunds/ch_1", "", []byte(`{"amount":1000}`))})
			require.NoError(t, err)
			for range 2 {
				require.True(t, requireProblem(t, g.do(), 503, "DEPENDENCY.unavailable").Retryable)
			}
			require.Zero(t, g.ran())
		}
	})
}

// If the handler does not know its effect, the policy for take-overs decides.
func TestUnknown(t *testing.T) {
	unknown := after(server.Unknown, answer(504, "x"))
	t.Run("by default the handler runs again, and sees that it was taken over", func(t *testing.T) {
		var seen []bool
		g := newRig(t, memstore.New(), func(w http.ResponseWriter, r *http.Request) {
			seen = append(seen, server.TakenOver(r.Context()))
			unknown(w, r)
		})
		requireReleased(t, g.do(), 504)
		requireReleased(t, g.do(), 504)
		require.Equal(t, []bool{false, true}, seen)
	})
	t.Run("Refuse refuses", func(t *testing.T) {
		g := newRig(t, memstore.New(), unknown, server.TakeOver(server.Refuse()))
		requireReleased(t, g.do(), 504)
		requireProblem(t, g.do(), 409, "CONFLICT.idempotency.outcome_unknown")
		require.Equal(t, 1, g.ran())
	})
	t.Run("a released key runs again under Refuse", func(t *testing.T) {
		g := newRig(t, memstore.New(), answer(503, "x"), server.TakeOver(server.Refuse()))
		requireReleased(t, g.do(), 503)
		requireReleased(t, g.do(), 503)
		require.Equal(t, 2, g.ran())
	})
	t.Run("Recover is asked", func(t *testing.T) {
		asked := 0
		g := newRig(t, memstore.New(), unknown, recovering(&asked, answer(200, "found")))
		requireReleased(t, g.do(), 504)
		requireStored(t, g.do(), 200, "found")
		require.Equal(t, 1, asked)
		require.Equal(t, 1, g.ran())
	})
	t.Run("the response is sent and not stored, also one too large to be stored", func(t *testing.T) {
		g := newRig(t, memstore.New(), after(server.Unknown, answer(200, "too large")),
			server.MaxResponse(3), server.TakeOver(server.Refuse()))
		w := g.do()
		requireReleased(t, w, 200)
		require.Equal(t, "too large", w.Body.String())
		requireProblem(t, g.do(), 409, "CONFLICT.idempotency.outcome_unknown")
	})
	t.Run("does nothing after Applied", func(t *testing.T) {
		g := newRig(t, memstore.New(), after(applied, unknown))
		requireStored(t, g.do(), 504, "x")
		requireReplayed(t, g.do(), 504, "x")
	})
	t.Run("the last call counts", func(t *testing.T) {
		g := newRig(t, memstore.New(), after(server.Unknown, after(server.Release, answer(200, "x"))),
			server.TakeOver(server.Refuse()))
		requireReleased(t, g.do(), 200)
		requireReleased(t, g.do(), 200)
	})
}

// recovering is a policy that counts how often it is asked.
func recovering(asked *int, h http.Handler) server.Option {
	return server.TakeOver(server.Recover(func(context.Context, *http.Request, string, []byte) (http.Handler, error) {
		*asked++
		return h, nil
	}))
}

// A handler that is cut off may have made its effect. A policy that can decide is called.
func TestCutOffHandlerIsDecidedByThePolicy(t *testing.T) {
	ends := map[string]http.HandlerFunc{
		"a timeout":       func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
		"a panic":         func(http.ResponseWriter, *http.Request) { panic(errors.New("boom")) },
		"ErrAbortHandler": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"a panic after an error status": func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(502)
			panic(http.ErrAbortHandler)
		},
		"a panic after Unknown": after(server.Unknown, func(http.ResponseWriter, *http.Request) { panic("x") }),
	}
	for rule, end := range ends {
		try := func(g *rig) {
			defer func() { _ = recover() }()
			g.do()
		}
		t.Run(rule+" under Recover", func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				asked := 0
				g := newRig(t, memstore.New(), end, recovering(&asked, answer(200, "found")))
				try(g)
				requireStored(t, g.do(), 200, "found")
				require.Equal(t, 1, asked)
				require.Equal(t, 1, g.ran())
			})
		})
		t.Run(rule+" under Refuse", func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := newRig(t, memstore.New(), end, server.TakeOver(server.Refuse()))
				try(g)
				requireProblem(t, g.do(), 409, "CONFLICT.idempotency.outcome_unknown")
				require.Equal(t, 1, g.ran())
			})
		})
		t.Run(rule+" by default runs again", func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := newRig(t, memstore.New(), end)
				try(g)
				try(g)
				require.Equal(t, 2, g.ran())
			})
		})
		t.Run(rule+" under Refuse after Release runs again", func(t *testing.T) {
			if rule == "a panic after Unknown" {
				t.Skip("its last call is Unknown")
			}
			synctest.Test(t, func(t *testing.T) {
				g := newRig(t, memstore.New(), after(server.Release, end), server.TakeOver(server.Refuse()),
					server.SilentOK())
				try(g)
				try(g)
				require.Equal(t, 2, g.ran())
			})
		})
	}
}
