package redo_test

import (
	"context"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo"
	"github.com/redo-go/redo/servertest"
	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/memstore"
	"github.com/redo-go/redo/taxonomy"
)

// A caller elsewhere may have seen a refusal, and does the thing in another way. An effect must not follow then.
func TestResumeSendsNothingMoreOnceAnotherProcessHasTheOperation(t *testing.T) {
	person := redo.Finding{Effect: redo.NotApplied, Evidence: "no such refund", By: "ana"}
	for name, c := range map[string]struct {
		meanwhile func(t *testing.T, other *redo.Client, st *failingFind)
		sends     int
	}{
		"nothing happens": {func(*testing.T, *redo.Client, *failingFind) {}, 3},
		"it is called there, and refused": {func(t *testing.T, other *redo.Client, _ *failingFind) {
			fail(t, other, post(t, redo.WithOperation(t.Context(), "a"), "http://api.test/a", payment))
		}, 1},
		"it is called there, and succeeds": {func(t *testing.T, _ *redo.Client, st *failingFind) {
			other := connect(t, newProvider(201, 0), redo.WithStore(st))
			succeed(t, other, post(t, redo.WithOperation(t.Context(), "a"), "http://api.test/a", payment))
		}, 3},
		"a person settles it": {func(t *testing.T, other *redo.Client, _ *failingFind) {
			require.NoError(t, other.Settle(t.Context(), "a", person))
		}, 1},
		"a person settles it as applied, after a refund by hand": {func(t *testing.T, other *redo.Client, _ *failingFind) {
			byHand := redo.Finding{Effect: redo.Applied, Evidence: "refunded by hand", By: "ana"}
			require.NoError(t, other.Settle(t.Context(), "a", byHand))
		}, 1},
		"it is forgotten": {func(t *testing.T, other *redo.Client, _ *failingFind) {
			require.NoError(t, other.Forget(t.Context(), "a"))
		}, 1},
		"it is forgotten, and called anew with success": {func(t *testing.T, other *redo.Client, st *failingFind) {
			require.NoError(t, other.Forget(t.Context(), "a"))
			anew := connect(t, newProvider(201, 0), redo.WithStore(st))
			succeed(t, anew, post(t, redo.WithOperation(t.Context(), "a"), "http://api.test/a", payment))
		}, 1},
		"the store is down: the key makes it safe": {func(_ *testing.T, _ *redo.Client, st *failingFind) {
			st.down.Store(true)
		}, 3},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st := &failingFind{Store: openStore(t)}
				leaveBehind(t, st, "a")
				p := newProvider(503, 0)
				client := connect(t, p, redo.WithStore(st), redo.WithRetry(redo.RetryPolicy{
					MaxAttempts: 3, BaseDelay: 10 * time.Second, MaxDelay: 10 * time.Second, MaxElapsed: time.Minute,
					Jitter: redo.ConstantDelay,
				}))
				op := pending(t, client)[0]
				done := make(chan error)
				go func() {
					resp, err := client.Resume(t.Context(), op)
					if err == nil {
						_ = resp.Body.Close()
					}
					done <- err
				}()
				time.Sleep(5 * time.Second)
				c.meanwhile(t, connect(t, newProvider(422, 0), redo.WithStore(st)), st)
				e := failure(t, <-done)
				require.Len(t, p.came["a"], c.sends)
				require.Equal(t, redo.EffectUnknown, e.Effect)
				if c.sends == 1 {
					require.Equal(t, taxonomy.InFlight, e.Code)
					require.ErrorContains(t, e, "another caller has taken the operation over, settled it or forgotten it")
				}
			})
		})
	}
}

// The operation may have a new key by then.
func TestACallSendsNothingMoreOnceItsOperationWasSettledOrHasANewKey(t *testing.T) {
	finding := func(effect redo.Effect) func(*testing.T, *redo.Client) {
		return func(t *testing.T, other *redo.Client) {
			f := redo.Finding{Effect: effect, Evidence: "the bank's dashboard", By: "ana"}
			require.NoError(t, other.Settle(t.Context(), "op", f))
		}
	}
	forget := func(t *testing.T, other *redo.Client) { require.NoError(t, other.Forget(t.Context(), "op")) }
	for name, c := range map[string]struct {
		meanwhile      func(*testing.T, *redo.Client)
		again          bool // the operation is then called by the other process
		effects, sends int
	}{
		"settled as not applied, and called anew": {finding(redo.NotApplied), true, 1, 2},
		"forgotten, and called anew":              {forget, true, 1, 2},
		"settled as not applied":                  {finding(redo.NotApplied), false, 0, 1},
		"forgotten, as by a failover":             {forget, false, 1, 2},
		"settled as applied, after one by hand":   {finding(redo.Applied), false, 0, 1},
		"called by another process":               {func(*testing.T, *redo.Client) {}, true, 1, 3},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := servertest.NewInMemory(t, servertest.ScriptNext(servertest.Status(503)))
				st := openStore(t)
				first, other := connect(t, srv.Transport(), redo.WithStore(st)), connect(t, srv.Transport(), redo.WithStore(st))
				done := make(chan error)
				go func() {
					resp, err := first.Do(named(t, srv, "op", payment))
					if err == nil {
						_ = resp.Body.Close()
					}
					done <- err
				}()
				time.Sleep(rest / 2)
				c.meanwhile(t, other)
				if c.again {
					succeed(t, other, named(t, srv, "op", payment))
				}
				err := <-done
				require.Equal(t, c.effects, srv.Ledger().Total())
				require.Len(t, srv.Requests(), c.sends)
				if c.sends == 3 || c.effects == 1 && !c.again {
					require.NoError(t, err, "the key is the same one")
					return
				}
				e := failure(t, err)
				require.Equal(t, []any{taxonomy.InFlight, redo.EffectUnknown}, []any{e.Code, e.Effect})
				require.False(t, redo.SafeToRetry(e), "the next call may send another key")
			})
		})
	}
}

// The queue of a limiter can be as long as the wait between two attempts.
func TestResumeSendsNothingIfAnotherProcessHadTheOperationWhileALimiterHeldItBack(t *testing.T) {
	for sends, other := range map[int]int{0: http.StatusUnprocessableEntity, 1: http.StatusCreated} {
		synctest.Test(t, func(t *testing.T) {
			st := openStore(t)
			leaveBehind(t, st, "a")
			p := newProvider(http.StatusCreated, 0)
			meanwhile := connect(t, newProvider(other, 0), redo.WithStore(st))
			client := connect(t, p, redo.WithStore(st), redo.WithLimiter(limiterFunc(func(context.Context) error {
				resp, err := meanwhile.Do(post(t, redo.WithOperation(t.Context(), "a"), "http://api.test/a", payment))
				if err == nil {
					_ = resp.Body.Close()
				}
				time.Sleep(time.Second)
				return nil
			})))
			_, err := client.Resume(t.Context(), pending(t, client)[0])
			require.Len(t, p.came["a"], sends)
			if sends == 1 {
				require.NoError(t, err, "the key makes it safe")
			} else {
				require.Equal(t, taxonomy.InFlight, failure(t, err).Code)
			}
		})
	}
}

// A limiter that lets a call pass at once leaves no time in which the record could change.
func TestALimiterThatDoesNotHoldBackCostsNoReadOfTheStore(t *testing.T) {
	for wait, reads := range map[time.Duration]int64{0: 0, time.Second: 1} {
		synctest.Test(t, func(t *testing.T) {
			st := &failingFind{Store: openStore(t)}
			client := connect(t, newProvider(http.StatusCreated, 0), redo.WithStore(st),
				redo.WithLimiter(limiterFunc(func(context.Context) error { time.Sleep(wait); return nil })))
			succeed(t, client, post(t, redo.WithOperation(t.Context(), "a"), "http://api.test/a", payment))
			require.Equal(t, reads, st.finds.Load())
		})
	}
}

// The end of a Resume that was overtaken says nothing to a call of the same operation.
func TestACallThatWaitsForAResumeGoesOnWhenThatIsOvertaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := openStore(t)
		leaveBehind(t, st, "a")
		sent := 0
		client := connect(t, tripper(func(r *http.Request) (*http.Response, error) {
			if sent++; sent == 1 {
				return answer(r, http.StatusServiceUnavailable, "", "Retry-After", "5"), nil
			}
			return answer(r, http.StatusCreated, ""), nil
		}), redo.WithStore(st))
		op, done := pending(t, client)[0], make(chan error)
		go func() {
			_, err := client.Resume(t.Context(), op)
			done <- err
		}()
		synctest.Wait()
		go func() {
			resp, err := client.Do(post(t, redo.WithOperation(t.Context(), "a"), "http://api.test/a", payment))
			if err == nil {
				_ = resp.Body.Close()
			}
			done <- err
		}()
		synctest.Wait()
		other := connect(t, newProvider(http.StatusUnprocessableEntity, 0), redo.WithStore(st))
		fail(t, other, post(t, redo.WithOperation(t.Context(), "a"), "http://api.test/a", payment))
		require.Equal(t, taxonomy.InFlight, failure(t, <-done).Code, "the Resume")
		require.NoError(t, <-done, "the call")
		require.Equal(t, 2, sent)
	})
}

// An operation can wait in the list for longer than its last call lasts.
func TestResumeEverySkipsAnOperationThatIsCalledAfterItWasListed(t *testing.T) {
	for sends, called := range map[int]bool{0: true, 1: false} {
		synctest.Test(t, func(t *testing.T) {
			st := openStore(t)
			leaveBehind(t, st, "a", "b", "c", "d", "e")
			p := newProvider(http.StatusCreated, 8*time.Second)
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error)
			go func() { done <- connect(t, p, redo.WithStore(st)).ResumeEvery(ctx, time.Hour, nil) }()
			time.Sleep(4 * time.Second)
			if called {
				other := connect(t, newProvider(http.StatusUnprocessableEntity, 8*time.Second), redo.WithStore(st))
				fail(t, other, post(t, redo.WithOperation(t.Context(), "e"), "http://api.test/e", payment))
			}
			time.Sleep(time.Minute)
			cancel()
			require.ErrorIs(t, <-done, context.Canceled)
			require.Len(t, p.came["d"], 1)
			require.Len(t, p.came["e"], sends)
		})
	}
}

// A failingFind is a store that can't be read while it is down.
type failingFind struct {
	*memstore.Store
	down  atomic.Bool
	finds atomic.Int64
}

func (s *failingFind) Find(ctx context.Context, id store.ID) (store.Record, error) {
	if s.finds.Add(1); s.down.Load() {
		return store.Record{}, store.ErrUnavailable
	}
	return s.Store.Find(ctx, id)
}
