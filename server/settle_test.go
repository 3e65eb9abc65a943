package server_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/server"
	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/memstore"
)

func TestComplete(t *testing.T) {
	t.Run("the record exists before the client sees a byte", func(t *testing.T) {
		st := memstore.New()
		g := newRig(t, st, nil)
		w := &orderedWriter{sink: sink{header: http.Header{}}, onHeader: func() {
			rec, err := st.Find(t.Context(), store.ID{Scope: "13:/refunds/{id}", Key: "k1"})
			require.NoError(t, err)
			require.Equal(t, store.StateComplete, rec.State)
		}}
		g.ServeHTTP(w, request(t.Context()))
		require.Equal(t, 201, w.status)
	})
	for lease, want := range map[time.Duration]time.Duration{
		server.DefaultLeaseTTL: 350 * time.Millisecond, // pauses of 50, 100 and 200 ms
		600 * time.Millisecond: 250 * time.Millisecond, // no pause is longer than a sixth of the lease
	} {
		t.Run(fmt.Sprintf("that fails immediately is tried again, with pauses, under a lease of %v", lease),
			func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					st := newFaults(func(method string, nth int, do func() error) error {
						if method == "Complete" && nth < 3 {
							return store.ErrUnavailable
						}
						return do()
					})
					g := newRig(t, st, nil, server.LeaseTTL(lease))
					start := time.Now()
					requireStored(t, g.do(), 201, `{"id":"rf_123"}`)
					require.Equal(t, want, time.Since(start))
					require.Zero(t, st.count("Extend"), "the lease is young")
				})
			})
	}
	t.Run("that keeps failing leaves the key pending and never released", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			st := newFaults(failing("Complete", store.ErrUnavailable))
			g := newRig(t, st, func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Location", "/refunds/rf_123")
				w.Header().Set("Set-Cookie", "a=b")
				created(w, r)
			})
			w := g.do()
			require.True(t, requireProblem(t, w, 503, "DEPENDENCY.unavailable").Retryable)
			require.Contains(t, []string{"1", "2"}, w.Header().Get("Retry-After"))
			require.Empty(t, w.Header().Get("Location"), "nothing of the withdrawn response is left")
			require.Empty(t, w.Header().Get("Set-Cookie"))
			require.Equal(t, 9, st.count("Complete"), "at 0, 50, 150, 350 and 750 ms, then each second up to five")
			require.Zero(t, st.count("Release"))
			requireProblem(t, g.do(), 409, "CONFLICT.idempotency.in_flight")
			require.Equal(t, 1, g.ran())
		})
	})
	t.Run("that hangs ends after the store's timeout", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			g := newRig(t, &hanging{memstore.New()}, nil, server.StoreTimeout(2*time.Second))
			start := time.Now()
			requireProblem(t, g.do(), 503, "DEPENDENCY.unavailable")
			require.Equal(t, 2*time.Second, time.Since(start))
		})
	})
	for _, c := range []struct {
		rule string
		made bool // the write whose response is lost
		want int
	}{
		{"whose response was lost is looked up: it was made", true, 1},
		{"whose response was lost is looked up: it was not made and is made again", false, 2},
	} {
		t.Run(c.rule, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st := newFaults(func(method string, nth int, do func() error) error {
					if method == "Complete" && nth == 0 {
						if c.made {
							require.NoError(t, do())
						}
						return store.ErrUnknown
					}
					return do()
				})
				g := newRig(t, st, nil)
				requireStored(t, g.do(), 201, `{"id":"rf_123"}`)
				require.Equal(t, 1, st.count("Find"))
				require.Equal(t, c.want, st.count("Complete"))
				requireReplayed(t, g.do(), 201, `{"id":"rf_123"}`)
			})
		})
	}
	t.Run("that was made late, after the look, is still known for its own", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var late func() error
			st := newFaults(func(method string, nth int, do func() error) error {
				switch {
				case method == "Complete" && nth == 0:
					late = do
					return store.ErrUnknown
				case method == "Complete" && nth == 1:
					require.NoError(t, late())
				}
				return do()
			})
			requireStored(t, newRig(t, st, nil).do(), 201, `{"id":"rf_123"}`)
		})
	})
	t.Run("that was made late, by a later attempt, is known for its own too", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var late func() error
			st := newFaults(func(method string, nth int, do func() error) error {
				switch {
				case method == "Complete" && nth == 0:
					return store.ErrUnavailable
				case method == "Complete" && nth == 1:
					late = do
					return store.ErrUnknown
				case method == "Complete" && nth == 2:
					require.NoError(t, late())
				}
				return do()
			})
			requireStored(t, newRig(t, st, nil).do(), 201, `{"id":"rf_123"}`)
		})
	})
	t.Run("that was lost to another owner is 503 when the look shows another fence", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			st := newFaults(func(method string, _ int, do func() error) error {
				if method == "Complete" {
					return store.ErrUnknown
				}
				return do()
			})
			g := newRig(t, st, func(w http.ResponseWriter, r *http.Request) {
				time.Sleep(time.Minute)
				created(w, r)
			}, server.LeaseTTL(3*time.Hour), server.HandlerTimeout(2*time.Hour))
			first := g.start()
			id := store.ID{Scope: "13:/refunds/{id}", Key: "k1"}
			rec, err := st.Store.Find(t.Context(), id)
			require.NoError(t, err)
			require.NoError(t, st.Store.Release(t.Context(), rec.Lease()))
			_, err = st.Store.Reserve(t.Context(), store.Claim{ID: id, Lease: time.Hour, Retention: time.Hour})
			require.NoError(t, err)
			requireProblem(t, <-first, 503, "DEPENDENCY.unavailable")
			require.Equal(t, 1, st.count("Complete"))
		})
	})
}

func TestRelease(t *testing.T) {
	const made, unmade, unseen = "it was made", "it was not made and is made again",
		"the record can't be read yet, and it is made again"
	for _, outcome := range []string{made, unmade, unseen} {
		t.Run("whose response was lost is looked up: "+outcome, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st := newFaults(func(method string, nth int, do func() error) error {
					switch {
					case method == "Release" && nth == 0:
						if outcome == made {
							require.NoError(t, do())
						}
						return store.ErrUnknown
					case method == "Find" && outcome == unseen:
						return store.ErrUnavailable
					}
					return do()
				})
				g := newRig(t, st, answer(503, "x"))
				requireReleased(t, g.do(), 503)
				time.Sleep(time.Second) // the response has not waited for the release
				require.Equal(t, map[string]int{made: 1, unmade: 2, unseen: 2}[outcome], st.count("Release"))
				requireReleased(t, g.do(), 503)
				require.Equal(t, 2, g.ran())
			})
		})
	}
	t.Run("of a success that another owner has replaced is 503", func(t *testing.T) {
		g := newRig(t, newFaults(failing("Release", store.ErrLost)), after(server.Release, answer(200, "x")))
		requireProblem(t, g.do(), 503, "DEPENDENCY.unavailable")
	})
	t.Run("that fails leaves the key pending and responds all the same", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			g := newRig(t, newFaults(failing("Release", store.ErrUnavailable)), answer(500, "x"))
			requireReleased(t, g.do(), 500)
			requireProblem(t, g.do(), 409, "CONFLICT.idempotency.in_flight")
		})
	})
}

func TestStoreDown(t *testing.T) {
	t.Run("fails closed: 503, Retry-After, and nothing runs", func(t *testing.T) {
		for _, down := range []error{store.ErrUnavailable, store.ErrUnknown, errors.New("driver: bad connection")} {
			g := newRig(t, newFaults(failing("Reserve", down)), nil)
			w := g.do()
			require.True(t, requireProblem(t, w, 503, "DEPENDENCY.unavailable").Retryable)
			require.Contains(t, []string{"1", "2"}, w.Header().Get("Retry-After"))
			require.NotContains(t, w.Body.String(), "driver", "the store's own words are for the log")
			require.Contains(t, w.Body.String(), "This request was not run.", "an earlier one may have been")
			require.Zero(t, g.ran())
		}
	})
	t.Run("a store that hangs is down", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			st := &hangingReserve{memstore.New()}
			g := newRig(t, st, nil)
			start := time.Now()
			requireProblem(t, g.do(), 503, "DEPENDENCY.unavailable")
			require.Equal(t, server.DefaultStoreTimeout, time.Since(start))
		})
	})
	t.Run("fails open only where the route allows it, and is counted", func(t *testing.T) {
		var seen recorder
		g := newRig(t, newFaults(failing("Reserve", store.ErrUnavailable)),
			func(w http.ResponseWriter, r *http.Request) {
				require.Equal(t, "k1", server.Key(r.Context()))
				body, err := io.ReadAll(r.Body)
				require.NoError(t, err)
				require.Equal(t, `{"amount":1000}`, string(body))
				created(w, r)
			}, server.FailOpen(), server.Observe(&seen))
		for range 2 {
			w := g.do()
			require.Equal(t, 201, w.Code)
			require.Empty(t, w.Header().Get("Idempotency-Status"))
		}
		require.Equal(t, 2, g.ran())
		require.Equal(t, []server.Kind{server.FailedOpen, server.FailedOpen}, seen.kinds())
	})
	t.Run("a claim that the store refuses is no outage, and never opens", func(t *testing.T) {
		g := newRig(t, newFaults(failing("Reserve", store.ErrInvalid)), nil, server.FailOpen())
		require.False(t, requireProblem(t, g.do(), 500, "CONFIGURATION.middleware").Retryable)
		require.Zero(t, g.ran())
	})
}

// hanging is a store whose Complete returns only when its context ends.
type hanging struct{ store.Store }

func (h *hanging) Complete(ctx context.Context, _ store.Lease, _ store.Outcome) error {
	<-ctx.Done()
	return ctx.Err()
}

type hangingReserve struct{ store.Store }

func (h *hangingReserve) Reserve(ctx context.Context, _ store.Claim) (store.Grant, error) {
	<-ctx.Done()
	return store.Grant{}, ctx.Err()
}

// A client may repeat as soon as it has the response, also after a write that this process guarded.
func TestRepetitionBehindTheResponseIsReplayed(t *testing.T) {
	for name, c := range map[string]struct {
		on      func(method string, nth int, do func() error) error
		timeout time.Duration
	}{
		"an ordinary write":                  {nil, server.DefaultStoreTimeout},
		"a write that may outlast the lease": {nil, server.DefaultLeaseTTL},
		"a write that succeeds at the second attempt": {func(method string, nth int, do func() error) error {
			if method == "Complete" && nth == 0 {
				return store.ErrUnavailable
			}
			return do()
		}, server.DefaultStoreTimeout},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := newRig(t, newFaults(c.on), nil, server.StoreTimeout(c.timeout))
				w := &orderedWriter{sink: sink{header: http.Header{}}, onHeader: func() {
					requireReplayed(t, g.do(), 201, `{"id":"rf_123"}`)
				}}
				g.ServeHTTP(w, request(t.Context()))
				require.Equal(t, 201, w.status)
				require.Equal(t, 1, g.ran())
			})
		})
	}
}

// orderedWriter calls onHeader when the response begins.
type orderedWriter struct {
	sink
	status   int
	onHeader func()
}

func (w *orderedWriter) WriteHeader(status int) {
	w.onHeader()
	w.status = status
}
