package server_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/server"
	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/memstore"
)

// outage makes the methods, or all of them, fail until begin has been called and d has passed since.
type outage struct {
	err     error
	d       time.Duration
	methods string       // empty: all
	until   atomic.Int64 // in Unix nanoseconds
}

func (o *outage) begin() { o.until.Store(time.Now().Add(o.d).UnixNano()) }

func (o *outage) on(method string, _ int, do func() error) error {
	if time.Now().UnixNano() < o.until.Load() && (o.methods == "" || strings.Contains(o.methods, method)) {
		return o.err
	}
	return do()
}

// A client retries every five seconds, until long after the outage and the lease.
func TestOutageAfterTheEffect(t *testing.T) {
	for _, c := range []*struct {
		rule string
		outage
	}{
		{"of Complete for a second", outage{err: store.ErrUnavailable, d: time.Second, methods: "Complete"}},
		{
			"of Complete for longer than StoreTimeout",
			outage{err: store.ErrUnavailable, d: 10 * time.Second, methods: "Complete"},
		},
		{
			"of Complete for longer than the lease",
			outage{err: store.ErrUnavailable, d: 2 * time.Minute, methods: "Complete"},
		},
		{"of Complete, each response lost", outage{err: store.ErrUnknown, d: 2 * time.Minute, methods: "Complete"}},
		{
			"of Complete and Find, each response lost",
			outage{err: store.ErrUnknown, d: 2 * time.Minute, methods: "Complete Find"},
		},
		{"of the store for a second", outage{err: store.ErrUnavailable, d: time.Second, methods: ""}},
		{
			"of the store for longer than StoreTimeout",
			outage{err: store.ErrUnavailable, d: 10 * time.Second, methods: ""},
		},
		{
			"of the store for longer than the lease",
			outage{err: store.ErrUnavailable, d: 2*time.Minute - time.Millisecond, methods: ""},
		},
		{"of the store for hours", outage{err: store.ErrUnavailable, d: 5*time.Hour - time.Millisecond, methods: ""}},
	} {
		t.Run(c.rule+" makes no second effect", func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := newRig(t, newFaults(c.on), func(w http.ResponseWriter, r *http.Request) {
					c.begin()
					created(w, r)
				})
				end := time.Now().Add(c.d + 2*server.DefaultLeaseTTL)
				for w := g.do(); w.Code != 201; w = g.do() {
					require.Contains(t, []int{409, 503}, w.Code)
					require.NotEmpty(t, w.Header().Get("Retry-After"))
					require.True(t, time.Now().Before(end), "the outcome is never recorded")
					time.Sleep(5 * time.Second)
				}
				requireReplayed(t, g.do(), 201, `{"id":"rf_123"}`)
				require.Equal(t, 1, g.ran())
				require.Zero(t, g.background.Len())
			})
		})
	}
	t.Run("of Complete alone is seen by another process as a key in flight, past the lease", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			out := outage{err: store.ErrUnavailable, d: 10 * time.Minute, methods: "Complete"}
			st := newFaults(out.on)
			g := newRig(t, st, func(w http.ResponseWriter, r *http.Request) { out.begin(); created(w, r) })
			other := newRig(t, newFaultsOver(st.Store), nil)
			requireProblem(t, g.do(), 503, "DEPENDENCY.unavailable")
			for range 9 {
				time.Sleep(time.Minute)
				requireProblem(t, other.do(), 409, "CONFLICT.idempotency.in_flight")
			}
			time.Sleep(2 * time.Minute)
			requireReplayed(t, other.do(), 201, `{"id":"rf_123"}`)
			require.Zero(t, other.ran())
		})
	})
	t.Run("that begins while the handler runs does not let this process run it twice", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			out := outage{err: store.ErrUnavailable, d: time.Minute, methods: "Extend"}
			st := newFaults(out.on)
			g := newRig(t, st, func(w http.ResponseWriter, r *http.Request) {
				out.begin()
				time.Sleep(50 * time.Second) // past the end of its context
				created(w, r)
			}, server.HandlerTimeout(10*time.Minute))
			first := g.start()
			time.Sleep(40 * time.Second)
			requireProblem(t, g.do(), 409, "CONFLICT.idempotency.in_flight")
			requireProblem(t, g.do(withBody("other")), 409, "CONFLICT.idempotency.payload_mismatch")
			requireStored(t, <-first, 201, `{"id":"rf_123"}`)
			requireReplayed(t, g.do(), 201, `{"id":"rf_123"}`)
			require.Equal(t, 1, g.ran())
		})
	})
	t.Run("keeps the mismatch of another payload, and other keys free", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			out := outage{err: store.ErrUnavailable, d: time.Hour, methods: "Complete Release"}
			g := newRig(t, newFaults(out.on), func(w http.ResponseWriter, r *http.Request) {
				if server.Key(r.Context()) == "k1" {
					out.begin()
				}
				created(w, r)
			})
			g.do()
			requireProblem(t, g.do(withBody("other")), 409, "CONFLICT.idempotency.payload_mismatch")
			out.until.Store(0)
			requireStored(t, g.do(withKey("k2")), 201, `{"id":"rf_123"}`)
		})
	})
}

func TestBackground(t *testing.T) {
	down := failing("Complete", store.ErrUnavailable)
	t.Run("Shutdown waits for the outcomes", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			log, logger := logged()
			st := newFaults(down)
			g := newRig(t, st, nil, logger)
			requireProblem(t, g.do(), 503, "DEPENDENCY.unavailable")
			require.Equal(t, 1, g.background.Len())
			time.AfterFunc(time.Minute, st.heal)
			start := time.Now()
			require.NoError(t, g.background.Shutdown(t.Context()))
			require.Equal(t, time.Minute, time.Since(start).Truncate(time.Second))
			require.Contains(t, log.String(), "level=INFO msg=\"idempotent outcome recorded late\" idempotency_key=k1")
			requireReplayed(t, g.do(), 201, `{"id":"rf_123"}`)
			require.NoError(t, g.background.Shutdown(t.Context()), "once more")
		})
	})
	t.Run("Shutdown ends the attempts with its context, and logs each key", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			log, logger := logged()
			st := newFaults(down)
			g := newRig(t, st, nil, logger)
			g.do(withKey("k1"))
			g.do(withKey("k2"))
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
			defer cancel()
			start := time.Now()
			err := g.background.Shutdown(ctx)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.ErrorContains(t, err, "2 keys")
			require.Equal(t, 3*time.Second, time.Since(start))
			for _, key := range []string{"k1", "k2"} {
				line := "level=ERROR msg=\"idempotent outcome not recorded\" idempotency_key=" + key
				require.Equal(t, 1, strings.Count(log.String(), line))
			}
			synctest.Wait()
			attempts := st.count("Complete")
			time.Sleep(time.Hour)
			require.Equal(t, attempts, st.count("Complete"))
			require.Zero(t, g.background.Len())
		})
	})
	t.Run("Shutdown with nothing to wait for returns immediately, also when its context has ended", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		require.NoError(t, new(server.Background).Shutdown(ctx))
		cancel()
		require.NoError(t, new(server.Background).Shutdown(ctx))
	})
	t.Run("after Shutdown nothing is kept, and the key is logged", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			log, logger := logged()
			g := newRig(t, newFaults(down), nil, logger)
			require.NoError(t, g.background.Shutdown(t.Context()))
			requireProblem(t, g.do(), 503, "DEPENDENCY.unavailable")
			require.Zero(t, g.background.Len())
			require.Contains(t, log.String(), "msg=\"idempotent outcome not recorded\" idempotency_key=k1")
		})
	})
	t.Run("is bounded by its limit", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			log, logger := logged()
			st := newFaults(down)
			b := &server.Background{Limit: 2}
			g := newRig(t, st, nil, logger, server.RunIn(b))
			g.background = b
			for _, key := range []string{"k1", "k2", "k3"} {
				requireProblem(t, g.do(withKey(key)), 503, "DEPENDENCY.unavailable")
			}
			require.Equal(t, 2, b.Len())
			require.Contains(t, log.String(), "msg=\"idempotent outcome not recorded\" idempotency_key=k3")
			require.NotContains(t, log.String(), "msg=\"idempotent outcome not recorded\" idempotency_key=k2")
			st.heal()
			time.Sleep(server.DefaultLeaseTTL)
			requireReplayed(t, g.do(withKey("k2")), 201, `{"id":"rf_123"}`)
			requireStored(t, g.do(withKey("k3")), 201, `{"id":"rf_123"}`) // its lease has ended
		})
	})
	t.Run("is bounded by the retention", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			log, logger := logged()
			st := newFaults(down)
			g := newRig(t, st, nil, logger, server.Retention(time.Hour))
			g.do()
			time.Sleep(time.Hour)
			require.Zero(t, g.background.Len())
			require.Contains(t, log.String(), "the retention has ended")
			attempts := st.count("Complete")
			time.Sleep(time.Hour)
			require.Equal(t, attempts, st.count("Complete"))
		})
	})
	t.Run("ends when another owner has the key", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			log, logger := logged()
			st := newFaults(down)
			g := newRig(t, st, nil, logger)
			g.do()
			rec, err := st.Store.Find(t.Context(), refundID)
			require.NoError(t, err)
			require.NoError(t, st.Store.Release(t.Context(), rec.Lease()))
			st.heal()
			time.Sleep(2 * time.Second)
			require.Zero(t, g.background.Len())
			require.Contains(t, log.String(), "msg=\"idempotent outcome not recorded\" idempotency_key=k1")
			require.Contains(t, log.String(), store.ErrLost.Error())
			requireStored(t, g.do(), 201, `{"id":"rf_123"}`) // the key is free in this process too
		})
	})
	t.Run("ends when the renewal finds another owner", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			log, logger := logged()
			st := newFaults(down)
			g := newRig(t, st, nil, logger)
			g.do()
			rec, err := st.Store.Find(t.Context(), refundID)
			require.NoError(t, err)
			require.NoError(t, st.Store.Release(t.Context(), rec.Lease()))
			time.Sleep(server.DefaultLeaseTTL)
			require.Zero(t, g.background.Len())
			require.Contains(t, log.String(), store.ErrLost.Error())
		})
	})
	t.Run("finds out that a lost response was that of its own outcome", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			log, logger := logged()
			start := time.Now()
			st := newFaults(func(method string, nth int, do func() error) error {
				switch {
				case method == "Complete" && nth == 0:
					require.NoError(t, do())
					return store.ErrUnknown
				case method == "Complete", method == "Find" && time.Since(start) < time.Minute:
					return store.ErrUnavailable
				}
				return do() // a renewal finds the lease lost
			})
			g := newRig(t, st, nil, logger)
			requireProblem(t, g.do(), 503, "DEPENDENCY.unavailable")
			time.Sleep(2 * time.Minute)
			require.Zero(t, g.background.Len())
			require.Contains(t, log.String(), "idempotent outcome recorded late")
			require.NotContains(t, log.String(), "idempotent outcome not recorded")
			requireReplayed(t, g.do(), 201, `{"id":"rf_123"}`)
		})
	})
	t.Run("a nil one is an error of the options", func(t *testing.T) {
		_, err := server.New(newFaults(nil), server.RunIn(nil))
		require.ErrorContains(t, err, "server: option RunIn: the Background must not be nil")
	})
}

// The response does not depend on a release, so it does not wait for one.
func TestReleaseInTheBackground(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := outage{err: store.ErrUnavailable, d: 2 * time.Minute, methods: "Release"}
		g := newRig(t, newFaults(out.on), func(w http.ResponseWriter, r *http.Request) {
			out.begin()
			answer(500, "x")(w, r)
		}, server.TakeOver(server.Refuse()))
		start := time.Now()
		requireReleased(t, g.do(), 500)
		require.Zero(t, time.Since(start))
		time.Sleep(time.Minute)
		requireProblem(t, g.do(), 409, "CONFLICT.idempotency.in_flight")
		time.Sleep(2 * time.Minute)
		requireReleased(t, g.do(), 500) // released, and not taken over
		require.Equal(t, 2, g.ran())
	})
}

// A store may have its own limits. The handler does not run again for a result that it refuses.
func TestResultThatTheStoreRefuses(t *testing.T) {
	st := newFaults(func(method string, nth int, do func() error) error {
		if method == "Complete" && nth == 0 {
			return store.ErrInvalid
		}
		return do()
	})
	g := newRig(t, st, nil)
	w := g.do()
	require.Equal(t, 201, w.Code)
	require.Equal(t, `{"id":"rf_123"}`, w.Body.String())
	require.Empty(t, w.Header().Get("Idempotency-Status"), "it is not stored")
	requireProblem(t, g.do(), 409, "CONFLICT.idempotency.result_not_stored")
	require.Equal(t, 1, g.ran())
}

// A grant may come after its lease has ended, and another request may own the key by then.
func TestGrantThatComesAfterItsLeaseMakesNoSecondEffect(t *testing.T) {
	late := func(calls ...string) func(string, int, func() error) error {
		return func(method string, nth int, do func() error) error {
			err := do()
			if slices.Contains(calls, fmt.Sprint(method, " ", nth)) {
				time.Sleep(15 * time.Second)
			}
			return err
		}
	}
	for name, c := range map[string]struct {
		late          []string // calls whose responses take longer than the lease
		between       bool     // another request takes the key over
		first, second int
	}{
		"the other request is the owner":     {[]string{"Reserve 0"}, true, 201, 201},
		"the lease is renewed without one":   {[]string{"Reserve 0"}, false, 201, 201},
		"a late renewal refuses the request": {[]string{"Reserve 0", "Extend 0"}, false, 503, 201},
		"a grant in time needs no renewal":   {nil, false, 201, 201},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := newRig(t, newFaults(late(c.late...)), nil,
					server.LeaseTTL(10*time.Second), server.StoreTimeout(40*time.Second))
				var first sync.WaitGroup
				first.Go(func() { require.Equal(t, c.first, g.do().Code) })
				if c.between {
					time.Sleep(12 * time.Second)
					require.Equal(t, c.second, g.do().Code)
				}
				first.Wait()
				time.Sleep(20 * time.Second)
				require.Equal(t, c.second, g.do().Code)
				require.Equal(t, 1, g.ran())
			})
		})
	}
}

func TestAGrantThatCameLateAndCannotBeRenewedRunsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, newFaults(func(method string, _ int, do func() error) error {
			if method == "Extend" {
				return store.ErrUnavailable
			}
			err := do()
			time.Sleep(5 * time.Second)
			return err
		}), nil, server.LeaseTTL(10*time.Second), server.StoreTimeout(40*time.Second))
		requireProblem(t, g.do(), 503, "DEPENDENCY.unavailable")
		require.Zero(t, g.ran())
	})
}

// A store's call may take StoreTimeout, and the lease is not renewed meanwhile.
func TestCallThatHangsLongerThanTheLeaseMakesNoSecondEffect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hangs := func(method string, nth int, do func() error) error {
			if method == "Complete" && nth == 0 {
				time.Sleep(35 * time.Second)
				return store.ErrUnavailable
			}
			return do()
		}
		g := newRig(t, newFaults(hangs), nil, server.LeaseTTL(10*time.Second), server.StoreTimeout(40*time.Second))
		var first sync.WaitGroup
		first.Go(func() { require.Equal(t, 201, g.do().Code) })
		time.Sleep(20 * time.Second)
		require.Equal(t, 409, g.do().Code, "the lease has ended, and the write still hangs")
		first.Wait()
		requireReplayed(t, g.do(), 201, `{"id":"rf_123"}`)
		require.Equal(t, 1, g.ran())
	})
}

// Requests with a key whose record can't be opened have nothing to record later.
func TestAnUnreadableRecordTakesNoPlaceInTheBackground(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sealed := func(st store.Store, id string) store.Store {
			key := store.SealKey{ID: id, Secret: make([]byte, store.SealSecret)}
			keys, err := store.NewKeyring(store.SealKeys{Seal: key})
			require.NoError(t, err)
			return store.Sealed(st, keys)
		}
		mem := memstore.New()
		dead := newRig(t, sealed(&noComplete{mem}, "new"), func(w http.ResponseWriter, r *http.Request) {
			require.NoError(t, server.Applied(r.Context()))
			created(w, r)
		})
		requireProblem(t, dead.do(), 503, "DEPENDENCY.unavailable")
		dead.shutdown()
		time.Sleep(time.Minute) // past the lease
		g := newRig(t, sealed(mem, "old"), nil)
		requireProblem(t, g.do(), 503, "DEPENDENCY.unavailable")
		require.Zero(t, g.background.Len())
	})
}
