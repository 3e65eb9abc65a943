package servertest_test

import (
	"context"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redo-go/redo/server"
	"github.com/redo-go/redo/servertest"
	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/boltstore"
	"github.com/redo-go/redo/store/memstore"
	"github.com/stretchr/testify/require"
)

// TestLostAnswerIsReplayed shows the purpose of the whole package, with the middleware and without it.
func TestLostAnswerIsReplayed(t *testing.T) {
	for _, fault := range []servertest.Fault{
		servertest.ResetAfterEffect(), servertest.CloseAfterEffect(), servertest.StatusAfterEffect(502),
		servertest.TruncatedBody(3),
	} {
		t.Run(fault.String(), func(t *testing.T) {
			onBoth(t, func(t *testing.T, start func(testing.TB, ...servertest.Option) *servertest.Server) {
				for kind, effects := range map[string]int{"with middleware": 1, "bare": 2} {
					t.Run(kind, func(t *testing.T) {
						opts := []servertest.Option{servertest.Script("k1", fault, servertest.OK())}
						if kind == "bare" {
							opts = append(opts, servertest.Bare())
						}
						srv := start(t, opts...)
						if resp, err := post(t, srv.Client(), srv.URL, "k1"); err == nil {
							require.NoError(t, resp.Body.Close())
						}
						resp, err := post(t, srv.Client(), srv.URL, "k1")
						require.NoError(t, err)
						require.NoError(t, resp.Body.Close())
						require.Equal(t, 201, resp.StatusCode)
						if kind == "bare" {
							require.Empty(t, resp.Header.Get("Idempotency-Status"))
						} else {
							require.Equal(t, "replayed", resp.Header.Get("Idempotency-Status"))
						}
						srv.Ledger().AssertEffects(t, "k1", effects)
						require.Equal(t, 2, srv.Ledger().Requests("k1"))
					})
				}
			})
		})
	}
}

// A verdictStore keeps the verdicts of its Reserve.
type verdictStore struct {
	*memstore.Store
	mu       sync.Mutex
	verdicts []store.Verdict
}

func (s *verdictStore) Reserve(ctx context.Context, c store.Claim) (store.Grant, error) {
	g, err := s.Store.Reserve(ctx, c)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.verdicts = append(s.verdicts, g.Verdict)
	return g, err
}

func TestDuplicateDelivery(t *testing.T) {
	for _, test := range []struct {
		rule     string
		fault    servertest.Fault
		opts     []servertest.Option
		verdicts []store.Verdict // of the first request's two copies; a wait claims again
	}{
		{
			"a duplicate that comes later is a replay", servertest.Duplicate(), nil,
			[]store.Verdict{store.Acquired, store.Complete},
		},
		{
			"a concurrent duplicate is in flight", servertest.DuplicateAtOnce(), nil,
			[]store.Verdict{store.Acquired, store.InFlight},
		},
		{"a concurrent duplicate may wait", servertest.DuplicateAtOnce(),
			[]servertest.Option{servertest.WithMiddleware(server.Wait(time.Second))},
			[]store.Verdict{store.Acquired, store.InFlight, store.Complete}},
	} {
		t.Run(test.rule, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st := &verdictStore{Store: memstore.New()}
				t.Cleanup(func() { require.NoError(t, st.Close()) })
				srv := servertest.NewInMemory(t,
					append(test.opts, servertest.WithStore(st), servertest.Script("k1", test.fault, test.fault))...)
				began := time.Now()
				for i := range 2 { // the second time both copies are replays
					status, body := answerTo(t, srv, "k1")
					require.Equal(t, 201, status)
					require.JSONEq(t, `{"id":"rf_1"}`, body)
					if i == 0 {
						require.Equal(t, test.verdicts, st.verdicts)
					}
				}
				require.Zero(t, time.Since(began), "the copies do not hold each other up")
				srv.Ledger().AssertEffects(t, "k1", 1)
				require.Equal(t, 2, srv.Ledger().Requests("k1"), "no client sent the duplicates")
			})
		})
	}
}

func TestDelayInHandlerIsReallyInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := servertest.NewInMemory(t,
			servertest.Script("k1", servertest.DelayInHandler(5*time.Second), servertest.OK(), servertest.OK()))
		client := srv.Client()
		client.Timeout = time.Second
		_, err := post(t, client, srv.URL, "k1")
		require.ErrorIs(t, err, context.DeadlineExceeded)

		resp, err := post(t, client, srv.URL, "k1")
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, 409, resp.StatusCode)
		require.Equal(t, "CONFLICT.idempotency.in_flight", resp.Header.Get("Error-Code"))

		time.Sleep(4 * time.Second)
		synctest.Wait()
		status, body := answerTo(t, srv, "k1")
		require.Equal(t, 201, status)
		require.JSONEq(t, `{"id":"rf_1"}`, body)
		srv.Ledger().AssertEffects(t, "k1", 1)
	})
}

func TestStoreFaults(t *testing.T) {
	t.Run("a store that fails at Reserve makes no effect, and the next request runs", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			srv := servertest.NewInMemory(t, servertest.Script("k1", servertest.StoreFailsAtReserve()))
			require.Equal(t, []int{503}, statuses(t, srv, "k1"))
			srv.Ledger().AssertEffects(t, "k1", 0)
			require.Equal(t, []int{201, 201}, statuses(t, srv, "k1", "k2"))
			srv.Ledger().AssertEffects(t, "k1", 1)
		})
	})
	t.Run("a store that fails at Complete leaves the effect made and the key in flight, until the outcome is recorded",
		func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := servertest.NewInMemory(t, servertest.Script("k1", servertest.StoreFailsAtComplete()))
				require.Equal(t, []int{503, 409}, statuses(t, srv, "k1", "k1"))
				require.Equal(t, []int{201}, statuses(t, srv, "k2"), "other keys are not concerned")
				time.Sleep(time.Second)
				require.Equal(t, []int{201}, statuses(t, srv, "k1"), "a replay")
				srv.Ledger().AssertEffects(t, "k1", 1)
			})
		})
	t.Run("a store fault that meets a request without a key has not fired", func(t *testing.T) {
		fake := newFakeTB(t)
		srv := servertest.NewInMemory(fake, servertest.Script("", servertest.StoreFailsAtReserve()))
		require.Equal(t, []int{201}, statuses(t, srv, ""))
		fake.end()
		require.Equal(t,
			[]string{`servertest: key "", step 1, StoreFailsAtReserve(): taken by request 1, but it never fired`},
			fake.errors)
	})
}

func TestPartsOfTheService(t *testing.T) {
	t.Run("the middleware takes options", func(t *testing.T) {
		srv := servertest.NewInMemory(t, servertest.WithMiddleware(server.Required()))
		require.Equal(t, []int{400, 201}, statuses(t, srv, "", "k1"))
	})
	t.Run("a handler sees the key", func(t *testing.T) {
		srv := servertest.NewInMemory(t,
			servertest.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, _ = w.Write([]byte(server.Key(r.Context())))
			})))
		_, body := answerTo(t, srv, `"k1"`)
		require.Equal(t, "k1", body)
	})
	t.Run("a store of the caller's outlives the server", func(t *testing.T) {
		st := memstore.New()
		t.Cleanup(func() { require.NoError(t, st.Close()) })
		for range 2 {
			fake := newFakeTB(t)
			srv := servertest.NewInMemory(fake, servertest.WithStore(st))
			_, body := answerTo(t, srv, "k1")
			require.JSONEq(t, `{"id":"rf_1"}`, body, "the second server replays the first one's response")
			fake.end()
			require.Empty(t, fake.errors)
		}
	})
	t.Run("principals do not see each other's keys", func(t *testing.T) {
		srv := servertest.NewInMemory(t, servertest.Principal(func(r *http.Request) string {
			return r.Header.Get("X-Tenant")
		}))
		for _, tenant := range []string{"acme", "globex", "acme"} {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, srv.URL, strings.NewReader("{}"))
			require.NoError(t, err)
			req.Header.Set("Idempotency-Key", "k1")
			req.Header.Set("X-Tenant", tenant)
			resp, err := srv.Client().Do(req)
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
		}
		srv.Ledger().AssertEffects(t, "k1", 2)
		require.Empty(t, srv.Ledger().Duplicates())
	})
}

func TestInvalidPartsEndTheTest(t *testing.T) {
	for _, test := range []struct {
		opts []servertest.Option
		want string
	}{
		{[]servertest.Option{servertest.WithStore(nil)}, "servertest: WithStore: the store is nil"},
		{
			[]servertest.Option{servertest.Bare(), servertest.WithStore(memstore.New())},
			"servertest: a Bare server has no store and no middleware",
		},
		{[]servertest.Option{servertest.WithMiddleware(server.Retention(-1))}, "servertest: WithMiddleware: server: "},
	} {
		t.Run(test.want, func(t *testing.T) {
			fake := newFakeTB(t)
			require.Nil(t, servertest.NewInMemory(fake, test.opts...))
			require.True(t, strings.HasPrefix(fake.fatal, test.want), fake.fatal)
		})
	}
}

// A plainStore has no optional capability.
type plainStore struct{ store.Store }

func TestStoreFaultsNeedNoCapability(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New()
		t.Cleanup(func() { require.NoError(t, st.Close()) })
		srv := servertest.NewInMemory(t, servertest.WithStore(plainStore{st}),
			servertest.Script("k1", servertest.StoreFailsAtReserve()))
		require.Equal(t, []int{503, 201, 201}, statuses(t, srv, "k1", "k1", "k1"))
		srv.Ledger().AssertEffects(t, "k1", 1)
	})
}

// A transaction needs the store itself, beneath the store that watches for faults.
func TestDuplicateAtOnceOfATransactionalRouteHasOneEffect(t *testing.T) {
	st, err := boltstore.Open(filepath.Join(t.TempDir(), "orders.redo"))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, st.Close()) })
	srv := servertest.New(t, servertest.WithStore(st),
		servertest.WithMiddleware(server.Transactional[*boltstore.Tx]()),
		servertest.Script("k1", servertest.DuplicateAtOnce(), servertest.OK()))
	for range 2 {
		resp, err := post(t, srv.Client(), srv.URL, "k1")
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, 201, resp.StatusCode)
	}
	srv.Ledger().AssertEffects(t, "k1", 1)
}
