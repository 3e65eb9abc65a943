package server_test

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/server"
	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/memstore"
)

// lostReserve loses the response of the first Reserve. If made is true the claim was made.
func lostReserve(made bool, err error) func(string, int, func() error) error {
	return func(method string, nth int, do func() error) error {
		if method != "Reserve" || nth > 0 {
			return do()
		}
		if made {
			_ = do()
		}
		return err
	}
}

func TestReserveWhoseResponseWasLost(t *testing.T) {
	t.Run("is found, and the handler runs under its lease", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			st := newFaults(lostReserve(true, store.ErrUnknown))
			var seen recorder
			g := newRig(t, st, slow(time.Minute-time.Second), server.Observe(&seen))
			requireStored(t, g.do(), 201, `{"id":"rf_123"}`)
			requireReplayed(t, g.do(), 201, `{"id":"rf_123"}`)
			require.Equal(t, 1, st.count("Find"))
			require.Equal(t, 5, st.count("Extend"))
			require.Equal(t, server.Created, seen.events[0].Kind)
		})
	})
	t.Run("is found after a take-over, which the handler sees", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			mem := memstore.New()
			diesAfter(t, mem, created)
			st := newFaultsOver(mem)
			st.on = lostReserve(true, store.ErrUnknown)
			var seen recorder
			g := newRig(t, st, nil, server.Observe(&seen))
			requireStored(t, g.do(), 201, `{"id":"rf_123"}`)
			require.Equal(t, server.TookOver, seen.events[0].Kind)
		})
	})
	t.Run("that was not made is 503, and blocks nothing", func(t *testing.T) {
		g := newRig(t, newFaults(lostReserve(false, store.ErrUnknown)), nil)
		requireProblem(t, g.do(), 503, "DEPENDENCY.unavailable")
		requireStored(t, g.do(), 201, `{"id":"rf_123"}`)
		require.Equal(t, 1, g.ran())
	})
	t.Run("of a key that another owner has is 503, and leaves the owner alone", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			mem := memstore.New()
			owner := newRig(t, mem, slow(time.Minute-time.Second))
			first := owner.start()
			st := newFaultsOver(mem)
			st.on = lostReserve(true, store.ErrUnknown)
			g := newRig(t, st, nil)
			requireProblem(t, g.do(), 503, "DEPENDENCY.unavailable")
			requireProblem(t, g.do(), 409, "CONFLICT.idempotency.in_flight")
			requireStored(t, <-first, 201, `{"id":"rf_123"}`)
			require.Zero(t, g.ran())
		})
	})
	// Until the record can be read the key is blocked, and never for the whole lease.
	for rule, lost := range map[string]error{"is unknown": store.ErrUnknown, "times out": nil} {
		t.Run("and "+rule+" while nothing can be read is given up in the background", func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				mem := memstore.New()
				st := newFaultsOver(mem)
				st.on = func(method string, nth int, do func() error) error {
					if method == "Find" && nth < 2 {
						return store.ErrUnavailable
					}
					if lost != nil {
						return lostReserve(true, lost)(method, nth, do)
					}
					err := do()
					if method == "Reserve" && nth == 0 {
						time.Sleep(server.DefaultStoreTimeout + time.Nanosecond)
						return errors.Join(err, context.Canceled)
					}
					return err
				}
				g := newRig(t, st, nil, server.TakeOver(server.Refuse()))
				requireProblem(t, g.do(), 503, "DEPENDENCY.unavailable")
				requireProblem(t, g.do(), 409, "CONFLICT.idempotency.in_flight")
				time.Sleep(time.Second)
				requireStored(t, g.do(), 201, `{"id":"rf_123"}`)
				require.Equal(t, 1, g.ran())
			})
		})
	}
	t.Run("that was not made is looked up in the background until it can be read", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			st := newFaults(func(method string, nth int, do func() error) error {
				if method == "Find" && nth < 2 {
					return store.ErrUnavailable
				}
				return lostReserve(false, store.ErrUnknown)(method, nth, do)
			})
			g := newRig(t, st, nil)
			requireProblem(t, g.do(), 503, "DEPENDENCY.unavailable")
			require.Equal(t, 1, g.background.Len())
			time.Sleep(time.Second)
			require.Zero(t, g.background.Len())
		})
	})
	// The record of a dead owner is all that is known of its effect.
	t.Run("of a dead owner's key is handed back in the background, and its mark is kept", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			mem := memstore.New()
			diesAfter(t, mem, func(_ http.ResponseWriter, r *http.Request) { applied(r.Context()) })
			st := newFaultsOver(mem)
			st.on = func(method string, nth int, do func() error) error {
				if method == "Find" && nth < 2 {
					return store.ErrUnavailable
				}
				return lostReserve(true, store.ErrUnknown)(method, nth, do)
			}
			g := newRig(t, st, nil)
			requireProblem(t, g.do(), 503, "DEPENDENCY.unavailable")
			time.Sleep(time.Second)
			requireProblem(t, g.do(), 409, "CONFLICT.idempotency.outcome_unknown")
			require.Zero(t, g.ran())
		})
	})
	t.Run("each claim has a different owner", func(t *testing.T) {
		st := &spy{Store: memstore.New()}
		g := newRig(t, st, nil)
		owners := map[string]bool{}
		for _, key := range []string{"k1", "k2", "k1"} {
			g.do(withKey(key))
			require.NotEmpty(t, st.last.Owner)
			require.LessOrEqual(t, len(st.last.Owner), store.MaxOwner)
			owners[st.last.Owner] = true
		}
		require.Len(t, owners, 3)
	})
	// Copies of a process, each restored from one snapshot, have the same state. An owner that is made from it is that
	// of a claim in each copy. A copy whose Reserve got no response would then take another's lease for its own.
	t.Run("no part of an owner is state of the process", func(t *testing.T) {
		st := &spy{Store: memstore.New()}
		g := newRig(t, st, nil)
		g.do(withKey("k1"))
		first := st.last.Owner
		g.do(withKey("k2"))
		const few = 8 // 40 random bits
		require.NotEqual(t, first[:few], st.last.Owner[:few])
		require.NotEqual(t, first[len(first)-few:], st.last.Owner[len(first)-few:])
	})
}

// A store that hangs is reported as such. The client has not cancelled anything.
func TestStoreTimeout(t *testing.T) {
	stores := map[string]store.Store{
		"Reserve": &hangingReserve{memstore.New()}, "Complete": &hanging{memstore.New()},
	}
	for rule, st := range stores {
		t.Run("of "+rule+" is named in the log and to the observer", func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				log, logger := logged()
				var seen recorder
				g := newRig(t, st, nil, logger, server.Observe(&seen))
				requireProblem(t, g.do(), 503, "DEPENDENCY.unavailable")
				g.shutdown()
				require.Contains(t, log.String(), "the store did not respond within StoreTimeout")
				require.NotContains(t, log.String(), "context canceled")
				for _, call := range seen.calls {
					if call.Method == rule {
						require.ErrorIs(t, call.Err, context.DeadlineExceeded)
						require.NotContains(t, call.Err.Error(), "canceled")
						require.Equal(t, server.DefaultStoreTimeout, call.Elapsed)
					}
				}
			})
		})
	}
	t.Run("is not the end of a client", func(t *testing.T) {
		st := newFaults(failing("Reserve", context.Canceled))
		var seen recorder
		newRig(t, st, nil, server.Observe(&seen)).do()
		require.ErrorIs(t, seen.calls[0].Err, context.Canceled)
		require.NotErrorIs(t, seen.calls[0].Err, context.DeadlineExceeded)
	})
}

// No handler runs for a lease that is granted late and not renewed, so Refuse has nothing to refuse.
func TestALateLeaseThatIsNotRenewedIsGivenUp(t *testing.T) {
	for name, renew := range map[string]func(do func() error) error{
		"the renewal fails":   func(func() error) error { return store.ErrUnavailable },
		"the renewal is late": func(do func() error) error { time.Sleep(2 * time.Second); return do() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st := newFaults(func(m string, nth int, do func() error) error {
					switch {
					case m == "Reserve" && nth == 0:
						err := do()
						time.Sleep(2 * time.Second)
						return err
					case m == "Extend" && nth == 0:
						return renew(do)
					}
					return do()
				})
				g := newRig(t, st, nil, server.LeaseTTL(4*time.Second), server.TakeOver(server.Refuse()))
				requireProblem(t, g.do(), 503, "DEPENDENCY.unavailable")
				time.Sleep(time.Minute)
				requireStored(t, g.do(), 201, `{"id":"rf_123"}`)
			})
		})
	}
}
