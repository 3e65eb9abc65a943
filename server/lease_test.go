package server_test

import (
	"context"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/server"
	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/memstore"
)

// untilDone runs until its context ends, and hands the cause over.
func untilDone(cause chan<- error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		<-r.Context().Done()
		cause <- context.Cause(r.Context())
		created(w, r)
	}
}

func TestLease(t *testing.T) {
	t.Run("a handler that outlives the lease keeps its key", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			st := newFaults(nil)
			g := newRig(t, st, slow(10*time.Minute-time.Second), server.LeaseTTL(30*time.Second),
				server.HandlerTimeout(time.Hour))
			first := g.start()
			for range 9 {
				time.Sleep(time.Minute)
				requireProblem(t, g.do(), 409, "CONFLICT.idempotency.in_flight")
			}
			requireStored(t, <-first, 201, `{"id":"rf_123"}`)
			require.Equal(t, 59, st.count("Extend"), "each 10 s")
			require.Equal(t, 1, g.ran())
		})
	})
	// A process that is paused renews its lease late. So does one whose store does not respond.
	t.Run("a process whose renewal is late starts no second handler", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			st := newFaults(func(method string, _ int, do func() error) error {
				if method == "Extend" {
					time.Sleep(2 * time.Minute) // deaf to its context
				}
				return do()
			})
			g := newRig(t, st, slow(time.Minute), server.LeaseTTL(30*time.Second), server.HandlerTimeout(time.Hour))
			first := g.start()
			for range 3 {
				time.Sleep(14 * time.Second)
				requireProblem(t, g.do(), 409, "CONFLICT.idempotency.in_flight")
			}
			requireStored(t, <-first, 201, `{"id":"rf_123"}`)
			requireReplayed(t, g.do(), 201, `{"id":"rf_123"}`)
			require.Equal(t, 1, g.ran())
			time.Sleep(2 * time.Minute) // until the renewal ends
		})
	})
	t.Run("a quick handler extends nothing", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			st := newFaults(nil)
			g := newRig(t, st, slow(10*time.Second-time.Nanosecond), server.LeaseTTL(30*time.Second))
			requireStored(t, g.do(), 201, `{"id":"rf_123"}`)
			require.Zero(t, st.count("Extend"))
		})
	})
	t.Run("a key that is handed back during a renewal is free", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var g *rig
			g = newRig(t, &slowRenewal{Store: memstore.New()}, func(w http.ResponseWriter, r *http.Request) {
				if g.ran() == 1 {
					time.Sleep(12 * time.Second)
					server.Unknown(r.Context())
				}
				created(w, r)
			}, server.LeaseTTL(30*time.Second))
			requireReleased(t, g.do(), 201)
			time.Sleep(4 * time.Second)
			requireStored(t, g.do(), 201, `{"id":"rf_123"}`)
			require.Equal(t, 2, g.ran())
		})
	})
	t.Run("a lost lease cancels the handler with that cause, and the response is 503", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			st := newFaults(func(method string, _ int, do func() error) error {
				if method == "Extend" || method == "Complete" {
					return store.ErrLost
				}
				return do()
			})
			cause := make(chan error, 1)
			g := newRig(t, st, untilDone(cause), server.LeaseTTL(30*time.Second))
			start := time.Now()
			p := requireProblem(t, g.do(), 503, "DEPENDENCY.unavailable")
			require.True(t, p.Retryable)
			require.Equal(t, 10*time.Second, time.Since(start))
			require.ErrorIs(t, <-cause, store.ErrLost)
		})
	})
	t.Run("a lease that can't be renewed counts as lost once it has run out, and the store has the last word",
		func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st := newFaults(failing("Extend", store.ErrUnavailable))
				cause := make(chan error, 1)
				g := newRig(t, st, untilDone(cause), server.LeaseTTL(30*time.Second))
				start := time.Now()
				requireStored(t, g.do(), 201, `{"id":"rf_123"}`) // no request took the key over
				require.Equal(t, 30*time.Second, time.Since(start))
				err := <-cause
				require.ErrorIs(t, err, store.ErrLost)
				require.ErrorIs(t, err, store.ErrUnavailable)
				requireReplayed(t, g.do(), 201, `{"id":"rf_123"}`)
			})
		})
	t.Run("a heartbeat that fails once is made up for", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			st := newFaults(func(method string, nth int, do func() error) error {
				if method == "Extend" && nth == 0 {
					return store.ErrUnavailable
				}
				return do()
			})
			g := newRig(t, st, slow(50*time.Second), server.LeaseTTL(30*time.Second))
			requireStored(t, g.do(), 201, `{"id":"rf_123"}`)
			require.Equal(t, 5, st.count("Extend"), "at 10 s, again at 13 s, then each 10 s")
		})
	})
	t.Run("a lease that was granted late is renewed in time, on a context that has not ended", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			st := newFaults(func(method string, _ int, do func() error) error {
				err := do()
				if method == "Reserve" {
					time.Sleep(6 * time.Second) // beyond the store's timeout, and deaf to its context
				}
				return err
			})
			g := newRig(t, st, func(w http.ResponseWriter, r *http.Request) {
				time.Sleep(4500 * time.Millisecond)
				require.NoError(t, r.Context().Err())
				created(w, r)
			}, server.LeaseTTL(30*time.Second), server.StoreTimeout(5*time.Second))
			requireStored(t, g.do(), 201, `{"id":"rf_123"}`)
			require.Equal(t, 1, st.count("Extend"), "10 s after it was asked for")
		})
	})
	t.Run("a stale owner's success is never seen", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			st := newFaults(failing("Extend", store.ErrUnavailable))
			g := newRig(t, st, func(w http.ResponseWriter, r *http.Request) {
				time.Sleep(time.Minute) // deaf to its context
				answer(201, "stale")(w, r)
			}, server.LeaseTTL(30*time.Second), server.HandlerTimeout(time.Hour))
			other := newRig(t, st, func(w http.ResponseWriter, r *http.Request) {
				require.True(t, server.TakenOver(r.Context()))
				answer(201, "fresh")(w, r)
			})
			first := g.start()
			time.Sleep(30 * time.Second)
			requireProblem(t, g.do(), 409, "CONFLICT.idempotency.in_flight") // this process knows that it runs
			requireStored(t, other.do(), 201, "fresh")
			requireProblem(t, <-first, 503, "DEPENDENCY.unavailable")
			requireReplayed(t, g.do(), 201, "fresh")
		})
	})
	t.Run("a stale owner's release changes nothing", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			st := newFaults(failing("Extend", store.ErrUnavailable))
			g := newRig(t, st, func(w http.ResponseWriter, r *http.Request) {
				time.Sleep(time.Minute)
				answer(500, "stale")(w, r)
			}, server.LeaseTTL(30*time.Second), server.HandlerTimeout(time.Hour))
			other := newRig(t, newFaultsOver(st.Store), slow(40*time.Second), server.HandlerTimeout(time.Hour))
			first := g.start()
			time.Sleep(35 * time.Second)
			second := other.start()
			require.Equal(t, 500, (<-first).Code)
			requireProblem(t, g.do(), 409, "CONFLICT.idempotency.in_flight")
			requireStored(t, <-second, 201, `{"id":"rf_123"}`)
		})
	})
}

func TestHandlerContext(t *testing.T) {
	type valueKey struct{}
	t.Run("outlives the client, keeps its values and has the route's deadline", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			client, leave := context.WithCancel(context.WithValue(t.Context(), valueKey{}, "trace"))
			g := newRig(t, memstore.New(), func(w http.ResponseWriter, r *http.Request) {
				leave()
				deadline, ok := r.Context().Deadline()
				require.True(t, ok)
				require.Equal(t, 20*time.Second, time.Until(deadline))
				require.NoError(t, r.Context().Err())
				require.Equal(t, "trace", r.Context().Value(valueKey{}))
				require.Equal(t, "k1", server.Key(r.Context()))
				created(w, r)
			}, server.HandlerTimeout(20*time.Second))
			g.do(func(r *http.Request) { *r = *r.WithContext(client) })
			requireReplayed(t, g.do(), 201, `{"id":"rf_123"}`)
		})
	})
	t.Run("ends with the client by choice, and the outcome is stored all the same", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			client, leave := context.WithCancel(t.Context())
			g := newRig(t, memstore.New(), func(w http.ResponseWriter, r *http.Request) {
				leave()
				<-r.Context().Done()
				require.ErrorIs(t, r.Context().Err(), context.Canceled)
				created(w, r)
			}, server.CancelOnDisconnect())
			g.do(func(r *http.Request) { *r = *r.WithContext(client) })
			requireReplayed(t, g.do(), 201, `{"id":"rf_123"}`)
		})
	})
	// A framework or a platform has set it, for example that of a function's invocation.
	t.Run("outlives a deadline of the request's context, and by choice does not", func(t *testing.T) {
		for want, opts := range map[time.Duration][]server.Option{
			time.Minute: nil, time.Second: {server.CancelOnDisconnect()},
		} {
			synctest.Test(t, func(t *testing.T) {
				request, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				g := newRig(t, memstore.New(), func(_ http.ResponseWriter, r *http.Request) {
					began := time.Now()
					<-r.Context().Done()
					require.Equal(t, want, time.Since(began))
				}, opts...)
				g.do(func(r *http.Request) { *r = *r.WithContext(request) })
				require.Equal(t, 1, g.ran())
			})
		}
	})
	for _, c := range []struct {
		rule, value string
		want        time.Duration
	}{
		{"a client's shorter budget is the deadline", "1500", 1500 * time.Millisecond},
		{"a longer one changes nothing", "61000", time.Minute},
		{"an enormous one changes nothing", "9223372036854775807", time.Minute},
		{"one beyond all numbers changes nothing", "99999999999999999999", time.Minute},
		{"garbage is no budget", "soon", time.Minute},
		{"zero is no budget", "0", time.Minute},
		{"a negative one is none", "-5", time.Minute},
	} {
		t.Run(c.rule, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := newRig(t, memstore.New(), func(_ http.ResponseWriter, r *http.Request) {
					deadline, _ := r.Context().Deadline()
					require.Equal(t, c.want, time.Until(deadline))
				})
				g.do(withHeader("X-Request-Timeout", c.value))
				require.Equal(t, 1, g.ran())
			})
		})
	}
	t.Run("a handler that reports nothing when its time is over is 504 and releases the key", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			g := newRig(t, memstore.New(), func(_ http.ResponseWriter, r *http.Request) {
				<-r.Context().Done()
				require.ErrorIs(t, r.Context().Err(), context.DeadlineExceeded)
			})
			require.True(t, requireProblem(t, g.do(), 504, "DEPENDENCY.timeout").Retryable)
			requireProblem(t, g.do(), 504, "DEPENDENCY.timeout")
			require.Equal(t, 2, g.ran())
		})
	})
	for rule, c := range map[string]struct {
		report func(context.Context)
		then   int
	}{"Release": {server.Release, 504}, "Unknown": {server.Unknown, 409}} {
		for _, opts := range [][]server.Option{nil, {server.SilentOK()}} {
			t.Run("a handler that calls "+rule+" and responds with nothing in time is 504", func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					g := newRig(t, memstore.New(), after(c.report, func(_ http.ResponseWriter, r *http.Request) {
						<-r.Context().Done()
					}), append(opts, server.TakeOver(server.Refuse()))...)
					requireProblem(t, g.do(), 504, "DEPENDENCY.timeout")
					require.Equal(t, c.then, g.do().Code)
				})
			})
		}
	}
	t.Run("is not ended by a call to the store that takes too long", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			g := newRig(t, memstore.New(), func(w http.ResponseWriter, r *http.Request) {
				time.Sleep(30 * time.Second)
				require.NoError(t, r.Context().Err())
				created(w, r)
			}, server.StoreTimeout(time.Second))
			requireStored(t, g.do(), 201, `{"id":"rf_123"}`)
		})
	})
}

func TestCheckpoint(t *testing.T) {
	var found []byte
	g := func(t *testing.T, st store.Store) *rig {
		return newRig(t, st, func(w http.ResponseWriter, r *http.Request) {
			require.NoError(t, server.Checkpoint(r.Context(), []byte("old")))
			require.NoError(t, server.Checkpoint(r.Context(), []byte("pay_1")))
			created(w, r)
		},
			server.TakeOver(server.Recover(
				func(_ context.Context, _ *http.Request, _ string, meta []byte) (http.Handler, error) {
					found = meta
					return answer(200, "recovered"), nil
				})))
	}
	t.Run("is found by a recovery", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			st := newFaults(failing("Complete", store.ErrUnavailable))
			g := g(t, st)
			requireProblem(t, g.do(), 503, "DEPENDENCY.unavailable")
			g.shutdown()
			st.heal()
			time.Sleep(server.DefaultLeaseTTL)
			requireStored(t, g.do(), 200, "recovered")
			require.Equal(t, "pay_1", string(found))
		})
	})
	t.Run("reports a lost lease", func(t *testing.T) {
		st := newFaults(failing("Extend", store.ErrLost))
		var err error
		g := newRig(t, st, func(_ http.ResponseWriter, r *http.Request) { err = server.Checkpoint(r.Context(), nil) })
		g.do()
		require.ErrorIs(t, err, store.ErrLost)
	})
}

// A slowRenewal store makes the first Extend after 4 seconds, even if its context has ended.
type slowRenewal struct {
	store.Store
	begun atomic.Bool
}

func (s *slowRenewal) Extend(ctx context.Context, l store.Lease, d time.Duration, meta []byte) error {
	if s.begun.CompareAndSwap(false, true) {
		time.Sleep(4 * time.Second)
	}
	return s.Store.Extend(context.WithoutCancel(ctx), l, d, meta)
}

// Another request may have made the effect, so the response must not say that the handler was too slow.
func TestAHandlerThatWritesNothingAfterItsLeaseWasLostIsUnavailable(t *testing.T) {
	for _, method := range []string{"Extend", "Release"} { // where the loss shows
		synctest.Test(t, func(t *testing.T) {
			g := newRig(t, newFaults(failing(method, store.ErrLost)), func(_ http.ResponseWriter, r *http.Request) {
				<-r.Context().Done()
			}, server.HandlerTimeout(time.Hour))
			requireProblem(t, g.do(), 503, "DEPENDENCY.unavailable")
		})
	}
}
