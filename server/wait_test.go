package server_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/server"
	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/memstore"
)

func TestInFlight(t *testing.T) {
	t.Run("is 409 with a Retry-After that does not overstate", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			g := newRig(t, memstore.New(), slow(4*time.Second), server.LeaseTTL(time.Hour))
			first := g.start()
			w := g.do()
			require.True(t, requireProblem(t, w, 409, "CONFLICT.idempotency.in_flight").Retryable)
			require.Contains(t, []string{"1", "2"}, w.Header().Get("Retry-After"),
				"a second while nothing is known, and jitter")
			<-first
			second := g.start(withKey("k2"))
			w = g.do(withKey("k2"))
			require.Contains(t, []string{"4", "5", "6"}, w.Header().Get("Retry-After"),
				"the handler's usual time, and not the lease's hour")
			<-second
		})
	})
	t.Run("is 425 by choice", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			g := newRig(t, memstore.New(), slow(time.Second), server.InFlightStatus(http.StatusTooEarly))
			first := g.start()
			requireProblem(t, g.do(), 425, "CONFLICT.idempotency.in_flight")
			<-first
		})
	})
}

// Each store twice: memstore notifies its waiters. Behind faults it can't, and is polled.
func waitingStores() map[string]func() store.Store {
	return map[string]func() store.Store{
		"notified": func() store.Store { return memstore.New() },
		"polled":   func() store.Store { return newFaults(nil) },
	}
}

func TestWait(t *testing.T) {
	for name, open := range waitingStores() {
		t.Run(name, func(t *testing.T) {
			t.Run("every waiter gets the first one's response", func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					st := open()
					g := newRig(t, st, slow(10*time.Second), server.Wait(time.Minute))
					first := g.start()
					var waiters []<-chan *httptest.ResponseRecorder
					for range 50 {
						waiters = append(waiters, g.start())
					}
					requireStored(t, <-first, 201, `{"id":"rf_123"}`)
					for _, w := range waiters {
						requireReplayed(t, <-w, 201, `{"id":"rf_123"}`)
					}
					require.Equal(t, 1, g.ran())
					if f, polled := st.(*faults); polled {
						// Immediately, after 25, 50, 100 and 200 ms, then each 400 ms: one poller for all of them.
						require.Equal(t, 1+4+25, f.count("Find"))
						require.Equal(t, 1+50+50, f.count("Reserve"))
					}
				})
			})
			t.Run("no longer than the route allows", func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					g := newRig(t, open(), slow(10*time.Second), server.Wait(3*time.Second))
					first := g.start()
					start := time.Now()
					requireProblem(t, g.do(), 409, "CONFLICT.idempotency.in_flight")
					require.Equal(t, 3*time.Second, time.Since(start))
					<-first
				})
			})
			t.Run("no longer than the client does", func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					g := newRig(t, open(), slow(10*time.Second), server.Wait(3*time.Second))
					first := g.start()
					start := time.Now()
					requireProblem(t, g.do(withHeader("X-Request-Timeout", "500")), 409,
						"CONFLICT.idempotency.in_flight")
					require.Equal(t, 500*time.Millisecond, time.Since(start))
					<-first
				})
			})
			t.Run("a client that leaves waits no more", func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					g := newRig(t, open(), slow(10*time.Second), server.Wait(time.Minute))
					first := g.start()
					client, leave := context.WithCancel(t.Context())
					waiter := g.start(func(r *http.Request) { *r = *r.WithContext(client) })
					start := time.Now()
					leave()
					require.Equal(t, 409, (<-waiter).Code)
					require.Zero(t, time.Since(start))
					<-first
				})
			})
			t.Run("a waiter runs the handler itself when the first one releases", func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					turn := 0
					g := newRig(t, open(), func(w http.ResponseWriter, r *http.Request) {
						time.Sleep(time.Second)
						turn++
						if turn == 1 {
							w.WriteHeader(503)
							return
						}
						answer(200, strconv.Itoa(turn))(w, r)
					}, server.Wait(time.Minute))
					first, second, third := g.start(), g.start(), g.start()
					require.Equal(t, 503, (<-first).Code)
					statuses := map[string]int{}
					for _, w := range []*httptest.ResponseRecorder{<-second, <-third} {
						require.Equal(t, 200, w.Code)
						require.Equal(t, "2", w.Body.String())
						statuses[w.Header().Get("Idempotency-Status")]++
					}
					require.Equal(t, map[string]int{"stored": 1, "replayed": 1}, statuses)
				})
			})
		})
	}
	t.Run("a dead owner's key is taken over when its lease ends, without a sign from the store", func(t *testing.T) {
		for _, wrap := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				mem := memstore.New()
				var st store.Store = mem
				if wrap {
					st = newFaultsOver(mem)
				}
				dead := newRig(t, &noComplete{mem}, nil)
				requireProblem(t, dead.do(), 503, "DEPENDENCY.unavailable")
				dead.shutdown()
				g := newRig(t, st, nil, server.Wait(time.Minute))
				requireStored(t, g.do(), 201, `{"id":"rf_123"}`)
				require.Equal(t, 1, g.ran())
			})
		}
	})
	t.Run("a waiter beyond the cap is refused immediately", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			g := newRig(t, memstore.New(), slow(10*time.Second), server.Wait(time.Minute), server.MaxWaiters(2))
			first, second, third := g.start(), g.start(), g.start()
			start := time.Now()
			requireProblem(t, g.do(), 409, "CONFLICT.idempotency.in_flight")
			require.Zero(t, time.Since(start))
			requireStored(t, <-first, 201, `{"id":"rf_123"}`)
			requireReplayed(t, <-second, 201, `{"id":"rf_123"}`)
			requireReplayed(t, <-third, 201, `{"id":"rf_123"}`)
		})
	})
	t.Run("a waiter gives its place back, with any result", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			g := newRig(t, memstore.New(), slow(2*time.Second), server.Wait(time.Second), server.MaxWaiters(1))
			for i := range 3 {
				key := withKey(strconv.Itoa(i))
				first := g.start(key)
				start := time.Now()
				requireProblem(t, g.do(key), 409, "CONFLICT.idempotency.in_flight")
				require.Equal(t, time.Second, time.Since(start), "it waited")
				time.Sleep(500 * time.Millisecond)
				requireReplayed(t, g.do(key), 201, `{"id":"rf_123"}`)
				<-first
			}
		})
	})
	t.Run("a waiter whose store goes down gets an error", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			st := newFaults(func(method string, nth int, do func() error) error {
				if method == "Find" || method == "Reserve" && nth > 1 {
					return store.ErrUnavailable
				}
				return do()
			})
			g := newRig(t, st, slow(10*time.Second), server.Wait(time.Minute))
			first := g.start()
			requireProblem(t, g.do(), 503, "DEPENDENCY.unavailable")
			<-first
		})
	})
	t.Run("a store that wakes for nothing is not asked in a hot loop", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			st := &jumpy{Store: newFaults(nil)}
			g := newRig(t, st, slow(990*time.Millisecond), server.Wait(time.Minute))
			first := g.start()
			requireReplayed(t, g.do(), 201, `{"id":"rf_123"}`)
			<-first
			require.Equal(t, 2+51, st.Store.(*faults).count("Reserve"), "at once and then each 20 ms, for a second")
		})
	})
}

func newFaultsOver(st store.Store) *faults { return &faults{Store: st, calls: map[string]int{}} }

type noComplete struct{ store.Store }

func (*noComplete) Complete(context.Context, store.Lease, store.Outcome) error {
	return store.ErrUnavailable
}

// jumpy is a store.Waiter that never waits.
type jumpy struct{ store.Store }

func (*jumpy) Wait(context.Context, store.ID, uint64) error { return nil }
