package server_test

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/server"
	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/memstore"
)

var (
	oldPepper = []byte("the old secret of 25 bytes")
	newPepper = []byte("the new secret of 25 bytes")
)

// The steps of a rotation.
var (
	beforeRotation = server.Pepper(oldPepper)
	firstStep      = server.Pepper(oldPepper, newPepper)
	secondStep     = server.Pepper(newPepper, oldPepper)
	afterRotation  = server.Pepper(newPepper)
)

// A process starts a process of the service.
type process = func(run http.HandlerFunc, opts ...server.Option) *rig

// rotations runs a test in both modes: by lease, and in a transaction. process returns a process of the service that
// works on st.
func rotations(t *testing.T, test func(t *testing.T, st *faults, process process)) {
	t.Helper()
	t.Run("by lease", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			st := newFaults(nil)
			test(t, st, func(run http.HandlerFunc, opts ...server.Option) *rig { return newRig(t, st, run, opts...) })
		})
	})
	t.Run("in a transaction", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := newBook(nil)
			test(t, b.faults, func(run http.HandlerFunc, opts ...server.Option) *rig {
				return newBookRig(t, b, run, opts...)
			})
		})
	})
}

func TestRotationKeepsRecords(t *testing.T) {
	const body = `{"id":"rf_123"}`
	t.Run("a record under the old secret is replayed", func(t *testing.T) {
		rotations(t, func(t *testing.T, _ *faults, process process) {
			requireStored(t, process(nil, beforeRotation).do(), 201, body)
			for _, step := range []server.Option{firstStep, secondStep} {
				g := process(nil, step)
				requireReplayed(t, g.do(), 201, body)
				requireProblem(t, g.do(withBody("other")), 409, "CONFLICT.idempotency.payload_mismatch")
				require.Zero(t, g.ran())
			}
		})
	})
	t.Run("without the old secret its records are forgotten", func(t *testing.T) {
		rotations(t, func(t *testing.T, _ *faults, process process) {
			requireStored(t, process(nil, beforeRotation).do(), 201, body)
			requireStored(t, process(nil, afterRotation).do(), 201, body)
		})
	})
	t.Run("a key in flight under the old secret is in flight, and then replayed", func(t *testing.T) {
		rotations(t, func(t *testing.T, _ *faults, process process) {
			before, after := process(slow(10*time.Second), firstStep), process(nil, secondStep)
			first := before.start()
			requireProblem(t, after.do(), 409, "CONFLICT.idempotency.in_flight")
			requireStored(t, <-first, 201, body)
			requireReplayed(t, after.do(), 201, body)
			require.Zero(t, after.ran())
		})
	})
	t.Run("a waiter gets the response of a process with the other secret", func(t *testing.T) {
		rotations(t, func(t *testing.T, _ *faults, process process) {
			before, after := process(slow(10*time.Second), firstStep),
				process(nil, secondStep, server.Wait(time.Minute))
			first, waiter := before.start(), after.start()
			requireStored(t, <-first, 201, body)
			requireReplayed(t, <-waiter, 201, body)
			require.Zero(t, after.ran())
		})
	})
	t.Run("a waiter runs as soon as the first one has failed", func(t *testing.T) {
		rotations(t, func(t *testing.T, _ *faults, process process) {
			fails := func(w http.ResponseWriter, _ *http.Request) {
				time.Sleep(55 * time.Second) // for longer than its guard lasts
				w.WriteHeader(503)
			}
			before, after := process(fails, secondStep), process(nil, secondStep, server.Wait(2*time.Minute))
			began, first := time.Now(), before.start()
			waiter := after.start()
			requireReleased(t, <-first, 503)
			requireStored(t, <-waiter, 201, body)
			require.Less(t, time.Since(began), 56*time.Second)
		})
	})
	t.Run("a key of the new secret is known to processes with either", func(t *testing.T) {
		rotations(t, func(t *testing.T, _ *faults, process process) {
			requireStored(t, process(nil, secondStep).do(), 201, body)
			for _, step := range []server.Option{firstStep, secondStep, afterRotation} {
				requireReplayed(t, process(nil, step).do(), 201, body)
			}
		})
	})
	t.Run("a refused old key is refused only if no secret has a record", func(t *testing.T) {
		rotations(t, func(t *testing.T, _ *faults, process process) {
			key := withKey(v7(time.Now().Add(-23 * time.Hour)))
			requireStored(t, process(nil, beforeRotation).do(key), 201, body)
			time.Sleep(2 * time.Hour)
			g := process(nil, secondStep, server.RefuseExpiredKeys())
			requireReplayed(t, g.do(key), 201, body)
			requireProblem(t, g.do(withKey(v7(time.Now().Add(-30*time.Hour)))), 409, "CONFLICT.idempotency.expired")
		})
	})
	t.Run("a retention later the old secret is not needed any more", func(t *testing.T) {
		rotations(t, func(t *testing.T, _ *faults, process process) {
			requireStored(t, process(nil, beforeRotation).do(), 201, body)
			during := process(nil, secondStep)
			time.Sleep(server.DefaultRetention / 2)
			requireStored(t, during.do(withKey("k2")), 201, body)
			time.Sleep(server.DefaultRetention/2 - time.Nanosecond)
			requireReplayed(t, during.do(), 201, body)
			time.Sleep(time.Nanosecond)
			after := process(nil, afterRotation)
			requireReplayed(t, after.do(withKey("k2")), 201, body)
			requireStored(t, after.do(), 201, body)
		})
	})
}

// A waiting request gives an ID up, and the store does not accept that. Later it owns the key.
func TestRotationKeepsNoKeyInFlightAfterARetreat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newFaults(nil)
		left := newRig(t, st, func(w http.ResponseWriter, r *http.Request) {
			server.Unknown(r.Context())
			w.WriteHeader(http.StatusGatewayTimeout)
		}, beforeRotation)
		requireReleased(t, left.do(), http.StatusGatewayTimeout)
		var old store.Record
		reserved := st.count("Reserve")
		st.on = func(m string, nth int, do func() error) error {
			switch {
			case m == "Reserve" && nth == reserved: // the record goes between Find and Reserve
				require.NoError(t, st.Store.Release(t.Context(), old.Lease()))
			case m == "Release" && nth == 0:
				return store.ErrUnavailable
			}
			return do()
		}
		for rec, err := range st.Store.(store.Lister).Pending(t.Context(), "") {
			require.NoError(t, err)
			old = rec
		}
		// With such a StoreTimeout each key is excluded while its outcome is recorded.
		g := newRig(t, st, nil, secondStep, server.Wait(time.Minute), server.StoreTimeout(server.DefaultLeaseTTL))
		requireStored(t, g.do(), 201, `{"id":"rf_123"}`)
		requireReplayed(t, g.do(), 201, `{"id":"rf_123"}`)
	})
}

// A request may die, or lose the store, before it has given up an ID that it acquired by chance. No handler ran for
// that record. The key's own record, under another secret, is older.
func TestRotationGivesUpARecordThatARetreatLeft(t *testing.T) {
	const body = `{"id":"rf_123"}`
	unknown := func(w http.ResponseWriter, r *http.Request) {
		server.Unknown(r.Context()) // leaves the record pending
		w.WriteHeader(http.StatusGatewayTimeout)
	}
	for name, test := range map[string]struct {
		first, retreat, next server.Option
		run                  http.HandlerFunc // of the key's own record
		runs                 int              // later
	}{
		"beside a settled record":         {secondStep, beforeRotation, firstStep, created, 0},
		"beside a dead owner's":           {beforeRotation, afterRotation, secondStep, unknown, 1},
		"and is not taken for the older":  {beforeRotation, afterRotation, firstStep, unknown, 1},
		"also under the secret before it": {firstStep, afterRotation, secondStep, created, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st := memstore.New()
				newRig(t, st, test.run, test.first).do()
				time.Sleep(time.Second)
				requireReleased(t, newRig(t, st, unknown, test.retreat).do(), http.StatusGatewayTimeout)
				g := newRig(t, st, func(w http.ResponseWriter, r *http.Request) {
					require.True(t, server.TakenOver(r.Context()))
					created(w, r)
				}, test.next)
				require.Equal(t, 201, g.do().Code)
				requireReplayed(t, g.do(), 201, body)
				require.Equal(t, test.runs, g.ran())
			})
		})
	}
	t.Run("unless the store can't show the others", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			st := newFaults(nil)
			requireReleased(t, newRig(t, st, unknown, beforeRotation).do(), http.StatusGatewayTimeout)
			st.on = func(m string, nth int, do func() error) error {
				if m == "Find" && nth == 1 {
					return store.ErrUnavailable
				}
				return do()
			}
			g := newRig(t, st, nil, firstStep)
			requireProblem(t, g.do(), 503, "DEPENDENCY.unavailable")
			require.Zero(t, g.ran())
			requireStored(t, g.do(), 201, body)
		})
	})
}

// A process that died under the old secret is taken over under it, and the policy is asked.
func TestRotationTakesOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := memstore.New()
		dead := newRig(t, &noComplete{mem}, nil, beforeRotation)
		requireProblem(t, dead.do(), 503, "DEPENDENCY.unavailable")
		dead.shutdown()
		g := newRig(t, mem, nil, secondStep, server.TakeOver(server.Refuse()))
		requireProblem(t, g.do(), 409, "CONFLICT.idempotency.in_flight")
		time.Sleep(server.DefaultLeaseTTL)
		requireProblem(t, g.do(), 409, "CONFLICT.idempotency.outcome_unknown")
		require.Zero(t, g.ran())

		var over bool
		g = newRig(t, mem, func(w http.ResponseWriter, r *http.Request) {
			over = server.TakenOver(r.Context())
			created(w, r)
		}, secondStep)
		time.Sleep(server.DefaultLeaseTTL)
		requireStored(t, g.do(), 201, `{"id":"rf_123"}`)
		require.True(t, over)
		requireReplayed(t, g.do(), 201, `{"id":"rf_123"}`)
		require.Equal(t, 1, g.ran())
	})
}

// Two processes, one for each step, get the same request concurrently. The whole request of the other process, or
// its beginning, comes before each call that the first process makes to the store.
func TestRotationRunsNoHandlerTwice(t *testing.T) {
	steps := []server.Option{firstStep, secondStep}
	for i, step := range steps {
		for rule, run := range map[string]http.HandlerFunc{"ends": nil, "is running": slow(10 * time.Second)} {
			t.Run(fmt.Sprintf("step %d, while the other %s", i+1, rule), func(t *testing.T) {
				rotations(t, func(t *testing.T, st *faults, process process) {
					last := -1 // the number of the call in front of which the other request came
					for at := range 20 {
						key := withKey(fmt.Sprint("k", at))
						one, other := process(nil, step), process(run, steps[1-i])
						var mu sync.Mutex
						calls, armed := 0, true
						st.mu.Lock()
						st.on = func(_ string, _ int, do func() error) error {
							mu.Lock()
							now := armed && calls == at
							armed = armed && !now
							calls++
							mu.Unlock()
							if now {
								last = at
								_ = other.start(key)
							}
							return do()
						}
						st.mu.Unlock()
						one.do(key)
						time.Sleep(time.Minute) // the other ends, and so does a guard that was left
						requireReplayedOrStored(t, one, other, key)
						require.Equal(t, 1, one.ran()+other.ran(), "before call %d", at)
					}
					require.Greater(t, last, 3, "the other request came in between")
				})
			})
		}
	}
}

// A guard is found, and has gone when its ID is claimed: its owner runs the handler under the other secret.
func TestRotationGivesUpAnIDThatWasGuarded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newFaults(nil)
		guarded, goOn := newFaultsOver(st.Store), make(chan struct{})
		guarded.on = func(method string, nth int, do func() error) error {
			if method == "Reserve" && nth == 1 {
				<-goOn // it has its guard, and not yet its record
			}
			return do()
		}
		owner := newRig(t, guarded, answer(503, "try again"), secondStep)
		g := newRig(t, st, nil, secondStep)
		st.on = func(method string, nth int, do func() error) error {
			if method != "Find" || nth != 1 {
				return do()
			}
			owner.start()
			err := do() // finds the guard
			require.NoError(t, err)
			close(goOn)
			synctest.Wait()
			return err
		}
		requireProblem(t, g.do(), 409, "CONFLICT.idempotency.in_flight")
		require.Zero(t, g.ran())
		require.Equal(t, 1, owner.ran())
		requireStored(t, g.do(), 201, `{"id":"rf_123"}`)
	})
}

// requireReplayedOrStored sends the request once more to each process. The first time may be the first run.
func requireReplayedOrStored(t *testing.T, one, other *rig, key func(*http.Request)) {
	t.Helper()
	require.Equal(t, 201, one.do(key).Code)
	requireReplayed(t, one.do(key), 201, `{"id":"rf_123"}`)
	requireReplayed(t, other.do(key), 201, `{"id":"rf_123"}`)
}

// A process that dies while it holds a guard blocks the key for a time, and leaves nothing that looks like an
// execution.
func TestRotationOutlivesAGuard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newFaults(nil)
		dies := func(method string, nth int, do func() error) error {
			if method == "Release" || method == "Reserve" && nth == 1 {
				return store.ErrUnavailable
			}
			return do()
		}
		st.on = dies
		requireProblem(t, newRig(t, st, nil, secondStep).do(), 503, "DEPENDENCY.unavailable")
		st.heal()
		var over bool
		g := newRig(t, st, func(w http.ResponseWriter, r *http.Request) {
			over = server.TakenOver(r.Context())
			created(w, r)
		}, secondStep, server.TakeOver(server.Refuse()))
		requireProblem(t, g.do(), 409, "CONFLICT.idempotency.in_flight")
		time.Sleep(time.Minute)
		requireStored(t, g.do(), 201, `{"id":"rf_123"}`)
		require.False(t, over)
	})
}

// ignoresContext is a store whose Reserve goes on after its context has ended.
type ignoresContext struct{ store.Store }

func (s ignoresContext) Reserve(ctx context.Context, c store.Claim) (store.Grant, error) {
	return s.Store.Reserve(context.WithoutCancel(ctx), c)
}

// A process that was paused while it held a guard does not run the handler: the guard may have expired.
func TestRotationAfterAPause(t *testing.T) {
	const limit = 4 * server.DefaultStoreTimeout // half the time for which a guard lasts
	for _, c := range []struct {
		pause time.Duration
		runs  int
	}{{time.Second, 1}, {limit, 1}, {limit + 1, 0}, {time.Hour, 0}} {
		synctest.Test(t, func(t *testing.T) {
			st := newFaults(nil)
			st.on = func(method string, nth int, do func() error) error {
				if method == "Reserve" && nth == 1 {
					time.Sleep(c.pause)
				}
				return do()
			}
			g := newRig(t, ignoresContext{st}, nil, secondStep)
			g.do()
			require.Equal(t, c.runs, g.ran(), c.pause.String())
			g.do()
			require.Equal(t, 1, g.ran())
		})
	}
}

// An engine with one writer takes the guards before the transaction begins and after it has ended.
func TestRotationOverOneWriter(t *testing.T) {
	b := newBank(t, nil, created, secondStep)
	requireStored(t, newRig(t, b.st, nil, beforeRotation).do(), 201, `{"id":"rf_123"}`)
	requireReplayed(t, b.do(), 201, `{"id":"rf_123"}`)
	requireStored(t, b.do(withKey("k2")), 201, `{"id":"rf_123"}`)
	requireReplayed(t, b.do(withKey("k2")), 201, `{"id":"rf_123"}`)
	require.Equal(t, 1, b.ran())
}

// The store never has the key, the principal or a secret.
func TestRotationShowsNoKey(t *testing.T) {
	st := &spy{Store: memstore.New()}
	g := newTenantRig(t, st, nil, secondStep, server.Principal(func(*http.Request) string { return "user 7" }))
	g.do(withKey("secret key"))
	require.Regexp(t, "^[0-9a-f]{64}$", st.last.ID.Key)
	require.False(t, strings.Contains(st.last.ID.Scope, "user 7"))
}

// The record may be under the other secret, so an outage of the store must not let the handler run.
func TestRotationRunsNothingWithoutTheStore(t *testing.T) {
	rotations(t, func(t *testing.T, st *faults, process process) {
		for _, method := range []string{"Find", "Reserve"} {
			key := withKey(method)
			st.on = failing(method, store.ErrUnavailable)
			g := process(nil, secondStep)
			requireProblem(t, g.do(key), 503, "DEPENDENCY.unavailable")
			require.Zero(t, g.ran(), method)
			st.heal()
			requireStored(t, g.do(key), 201, `{"id":"rf_123"}`)
		}
	})
}

// A long StoreTimeout is one way to set none.
func TestAGuardsTimeDoesNotOverflow(t *testing.T) {
	g := newRig(t, memstore.New(), nil, secondStep, server.StoreTimeout(math.MaxInt64))
	requireStored(t, g.do(), 201, `{"id":"rf_123"}`)
}
