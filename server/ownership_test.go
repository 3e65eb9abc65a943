package server_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/server"
	"github.com/redo-go/redo/store"
)

func TestTx(t *testing.T) {
	t.Run("is the handler's, by the route's own type", func(t *testing.T) {
		g := newBookRig(t, newBook(nil), func(w http.ResponseWriter, r *http.Request) {
			tx, ok := server.Tx[*pen](r.Context())
			require.True(t, ok)
			require.NotNil(t, tx)
			_, ok = server.Tx[*http.Server](r.Context())
			require.False(t, ok)
			_, ok = server.Tx[interface{ Write(string) }](r.Context()) // which a *pen is, but not the route's T
			require.False(t, ok)
			created(w, r)
		})
		requireStored(t, g.do(), 201, `{"id":"rf_123"}`)
	})
	t.Run("is zero outside of the middleware", func(t *testing.T) {
		tx, ok := server.Tx[*pen](t.Context())
		require.False(t, ok)
		require.Nil(t, tx)
	})
	for rule, edit := range map[string]func(*http.Request){
		"a request without a key":      without("Idempotency-Key"),
		"a method that is not covered": withMethod(http.MethodPut),
	} {
		t.Run("is not for "+rule, func(t *testing.T) {
			b := newBook(nil)
			g := newBookRig(t, b, func(_ http.ResponseWriter, r *http.Request) {
				_, ok := server.Tx[*pen](r.Context())
				require.False(t, ok)
			})
			g.do(edit)
			require.Equal(t, 1, g.ran())
			require.Zero(t, b.count("Begin"))
		})
	}
	t.Run("is not for a route by lease", func(t *testing.T) {
		g := newRig(t, newBook(nil), func(_ http.ResponseWriter, r *http.Request) {
			_, ok := server.Tx[*pen](r.Context())
			require.False(t, ok)
		})
		g.do()
		require.Equal(t, 1, g.ran())
	})
	t.Run("is over when the handler has returned, however it ended", func(t *testing.T) {
		for _, run := range []http.HandlerFunc{
			answer(200, "x"), answer(422, "x"), answer(503, "x"),
			func(http.ResponseWriter, *http.Request) { panic("x") },
		} {
			var leaked context.Context
			b := newBook(nil)
			taken := func() bool {
				_, ok := server.Tx[*pen](leaked)
				return ok
			}
			b.on = func(method string, _ int, do func() error) error {
				if method != "Begin" {
					require.False(t, taken(), method)
				}
				return do()
			}
			g := newBookRig(t, b, func(w http.ResponseWriter, r *http.Request) {
				leaked = r.Context()
				require.True(t, taken())
				run(w, r)
			})
			func() {
				defer func() { _ = recover() }()
				g.do()
			}()
			require.False(t, taken())
		}
	})
}

func TestTransactionContext(t *testing.T) {
	t.Run("outlives the client, the store's timeout and any lease, and has the route's deadline", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			client, leave := context.WithCancel(t.Context())
			b := newBook(nil)
			g := newBookRig(t, b, writing("refund", func(w http.ResponseWriter, r *http.Request) {
				leave()
				deadline, ok := r.Context().Deadline()
				require.True(t, ok)
				require.Equal(t, 2*time.Hour, time.Until(deadline))
				time.Sleep(time.Hour)
				require.NoError(t, r.Context().Err())
				created(w, r)
			}), server.StoreTimeout(time.Second), server.HandlerTimeout(2*time.Hour))
			g.do(func(r *http.Request) { *r = *r.WithContext(client) })
			require.Equal(t, []string{"refund"}, b.committed())
			require.Zero(t, b.count("Extend"), "there is nothing to renew")
			requireReplayed(t, g.do(), 201, `{"id":"rf_123"}`)
		})
	})
	t.Run("has not ended when the transaction was granted late", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			g := newBookRig(t, newBook(func(method string, _ int, do func() error) error {
				err := do()
				if method == "Begin" {
					time.Sleep(6 * time.Second) // beyond the store's timeout, and deaf to its context
				}
				return err
			}), func(w http.ResponseWriter, r *http.Request) {
				require.NoError(t, r.Context().Err())
				created(w, r)
			})
			requireStored(t, g.do(), 201, `{"id":"rf_123"}`)
		})
	})
	t.Run("ends with the client's budget", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			g := newBookRig(t, newBook(nil), func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
			start := time.Now()
			requireProblem(t, g.do(withHeader("X-Request-Timeout", "1500")), 504, "DEPENDENCY.timeout")
			require.Equal(t, 1500*time.Millisecond, time.Since(start))
		})
	})
	t.Run("a checkpoint is refused with its reason", func(t *testing.T) {
		var err error
		b := newBook(nil)
		g := newBookRig(t, b, func(_ http.ResponseWriter, r *http.Request) {
			err = server.Checkpoint(r.Context(), []byte("pay_1"))
		})
		g.do()
		require.ErrorIs(t, err, errors.ErrUnsupported)
		require.ErrorContains(t, err, "server: a checkpoint in a transaction would be rolled back with it")
		require.Zero(t, b.count("Extend"))
	})
}

func TestTransactionInFlight(t *testing.T) {
	t.Run("is 409 immediately, and Retry-After is the handler's usual time", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			g := newBookRig(t, newBook(nil), slow(4*time.Second))
			first := g.start()
			w := g.do()
			require.True(t, requireProblem(t, w, 409, "CONFLICT.idempotency.in_flight").Retryable)
			require.Contains(t, []string{"1", "2"}, w.Header().Get("Retry-After"),
				"a second while nothing is known, and jitter")
			requireProblem(t, g.do(withBody("other")), 409, "CONFLICT.idempotency.payload_mismatch")
			<-first
			second := g.start(withKey("k2"))
			require.Contains(t, []string{"4", "5", "6"}, g.do(withKey("k2")).Header().Get("Retry-After"))
			<-second
		})
	})
	t.Run("a waiter claims after pauses that double up to a bound, and gets the first one's response",
		func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBook(nil)
				g := newBookRig(t, b, slow(10*time.Second), server.Wait(time.Minute))
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
				// Immediately, after 25, 50, 100 and 200 ms, then each 400 ms.
				require.Equal(t, 1+50*(1+4+25), b.count("Begin"))
				require.Zero(t, b.count("Find"), "there is nothing to be found")
			})
		})
	t.Run("a waiter whose store can tell when a transaction is over waits no longer than that", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := newBook(nil)
			g := newBookRig(t, &telling{b}, slow(1100*time.Millisecond), server.Wait(time.Minute))
			first := g.start()
			start := time.Now()
			requireReplayed(t, g.do(), 201, `{"id":"rf_123"}`)
			require.Equal(t, 1100*time.Millisecond, time.Since(start))
			<-first
			require.Equal(t, 1+1+2+1, b.count("Begin"), "each 400 ms, and when it is over")
		})
	})
	t.Run("a waiter runs the handler itself when the first one rolls back", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			turn := 0
			b := newBook(nil)
			g := newBookRig(t, b, writing("refund", func(w http.ResponseWriter, r *http.Request) {
				time.Sleep(time.Second)
				if turn++; turn == 1 {
					w.WriteHeader(503)
					return
				}
				require.NoError(t, r.Context().Err())
				created(w, r)
			}), server.Wait(time.Minute), server.StoreTimeout(100*time.Millisecond))
			first, second, third := g.start(), g.start(), g.start()
			require.Equal(t, 503, (<-first).Code)
			statuses := map[string]int{}
			for _, w := range []*httptest.ResponseRecorder{<-second, <-third} {
				require.Equal(t, 201, w.Code)
				statuses[w.Header().Get("Idempotency-Status")]++
			}
			require.Equal(t, map[string]int{"stored": 1, "replayed": 1}, statuses)
			require.Equal(t, []string{"refund"}, b.committed())
		})
	})
	for _, c := range []struct {
		rule   string
		budget string
		want   time.Duration
	}{
		{"no longer than the route allows", "", 3 * time.Second},
		{"no longer than the client does", "500", 500 * time.Millisecond},
	} {
		t.Run("a waiter waits "+c.rule, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := newBookRig(t, newBook(nil), slow(10*time.Second), server.Wait(3*time.Second))
				first := g.start()
				start := time.Now()
				requireProblem(t, g.do(withHeader("X-Request-Timeout", c.budget)), 409,
					"CONFLICT.idempotency.in_flight")
				require.Equal(t, c.want, time.Since(start))
				<-first
			})
		})
	}
	t.Run("a waiter beyond the cap is refused immediately", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			g := newBookRig(t, newBook(nil), slow(10*time.Second), server.Wait(time.Minute), server.MaxWaiters(1))
			first, second := g.start(), g.start()
			start := time.Now()
			requireProblem(t, g.do(), 409, "CONFLICT.idempotency.in_flight")
			require.Zero(t, time.Since(start))
			requireStored(t, <-first, 201, `{"id":"rf_123"}`)
			requireReplayed(t, <-second, 201, `{"id":"rf_123"}`)
		})
	})
	t.Run("a key under another's lease is waited for as ever", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := newBook(nil)
			_, err := b.Store.Reserve(t.Context(), store.Claim{ID: refundID, Lease: time.Minute, Retention: time.Hour,
				Fingerprint: store.Raw(http.MethodPost, "/refunds/ch_1", "", []byte(`{"amount":1000}`))})
			require.NoError(t, err)
			g := newBookRig(t, b, nil, server.Wait(2*time.Minute))
			start := time.Now()
			requireStored(t, g.do(), 201, `{"id":"rf_123"}`)
			require.Equal(t, time.Minute, time.Since(start).Truncate(time.Second))
			require.Equal(t, 2, b.count("Begin"))
		})
	})
}

func TestTransactionTakeOver(t *testing.T) {
	// A two-step request ran its handler and died before its outcome was recorded. Then the route became transactional.
	died := func(t *testing.T, run http.HandlerFunc, opts ...server.Option) (*book, *rig) {
		t.Helper()
		b := newBook(nil)
		dies(t, b, "pay_1")
		return b, newBookRig(t, b, run, opts...)
	}
	stands := func(t *testing.T, b *book) {
		t.Helper()
		rec, err := b.Find(t.Context(), refundID)
		require.NoError(t, err)
		require.Equal(t, store.StatePending, rec.State)
		require.Equal(t, "\x01\x02pay_1", string(rec.Meta))
		require.Zero(t, rec.LeaseLeft())
	}
	t.Run("runs the handler in a transaction and reports it", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b, g := died(t, writing("refund", func(w http.ResponseWriter, r *http.Request) {
				require.True(t, server.TakenOver(r.Context()))
				created(w, r)
			}))
			requireStored(t, g.do(), 201, `{"id":"rf_123"}`)
			requireReplayed(t, g.do(), 201, `{"id":"rf_123"}`)
			require.Equal(t, []string{"refund"}, b.committed())
		})
	})
	t.Run("that is rolled back leaves the record as it was", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var seen recorder
			b, g := died(t, writing("refund", answer(500, "x")), server.Observe(&seen))
			for i := range 2 {
				requireReleased(t, g.do(), 500)
				stands(t, b)
				require.Equal(t, server.TookOver, seen.events[i].Kind)
				require.Equal(t, store.StatePending, seen.events[i].From)
				require.Equal(t, store.StatePending, seen.events[i].To)
			}
			require.Equal(t, 2, g.ran())
		})
	})
	t.Run("is refused by choice, each time, and leaves the record as it was", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b, g := died(t, nil, server.TakeOver(server.Refuse()))
			for range 3 {
				requireProblem(t, g.do(), 409, "CONFLICT.idempotency.outcome_unknown")
				stands(t, b)
			}
			require.Zero(t, g.ran())
			require.Equal(t, 3, b.count("Rollback"))
		})
	})
	recovery := func(h http.Handler, err error) server.Option {
		return server.TakeOver(server.Recover(
			func(ctx context.Context, r *http.Request, _ string, note []byte) (http.Handler, error) {
				tx, ok := server.Tx[*pen](ctx)
				if !ok || string(note) != "pay_1" {
					return nil, errors.New("no transaction, or another's note")
				}
				tx.Write("recovered")
				_, _ = io.ReadAll(r.Body)
				return h, err
			}))
	}
	t.Run("a recovery has the transaction, and its response is committed with its writes", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b, g := died(t, nil, recovery(answer(200, "found"), nil))
			requireStored(t, g.do(), 200, "found")
			requireReplayed(t, g.do(), 200, "found")
			require.Equal(t, []string{"recovered"}, b.committed())
			require.Zero(t, g.ran())
		})
	})
	t.Run("a recovery that finds nothing runs the handler in the same transaction", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b, g := died(t, writing("refund", created), recovery(nil, nil))
			requireStored(t, g.do(), 201, `{"id":"rf_123"}`)
			require.Equal(t, []string{"recovered", "refund"}, b.committed())
		})
	})
	t.Run("a recovery without a result is 503, undone, and the next request calls it again", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b, g := died(t, nil, recovery(nil, errors.New("provider down")))
			for range 2 {
				requireProblem(t, g.do(), 503, "DEPENDENCY.unavailable")
				stands(t, b)
			}
			require.Zero(t, g.ran())
			require.Empty(t, b.committed())
		})
	})
	t.Run("a recovery that panics is rolled back", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b, g := died(t, nil,
				server.TakeOver(server.Recover(
					func(context.Context, *http.Request, string, []byte) (http.Handler, error) {
						panic("x")
					})))
			require.Panics(t, func() { g.do() })
			stands(t, b)
		})
	})
}

func TestTransactionRefusesExpiredKeys(t *testing.T) {
	t.Run("an old key whose record goes between the look and the claim is rolled back unrun", func(t *testing.T) {
		b := newBook(func(method string, _ int, do func() error) error {
			if method == "Find" {
				return nil // a record exists, as far as this read shows
			}
			return do()
		})
		g := newBookRig(t, b, nil, server.RefuseExpiredKeys())
		requireProblem(t, g.do(withKey(v7(time.Now().Add(-48*time.Hour)))), 409, "CONFLICT.idempotency.expired")
		require.Zero(t, g.ran())
		require.Equal(t, 1, b.count("Rollback"))
	})
	t.Run("an old key that is unknown opens no transaction", func(t *testing.T) {
		b := newBook(nil)
		g := newBookRig(t, b, nil, server.RefuseExpiredKeys())
		requireProblem(t, g.do(withKey(v7(time.Now().Add(-48*time.Hour)))), 409, "CONFLICT.idempotency.expired")
		require.Zero(t, b.count("Begin"))
	})
}

// telling is a book whose Wait sees when a transaction is over.
type telling struct{ *book }

func (b *telling) Wait(ctx context.Context, id store.ID, _ uint64) error {
	b.mu.Lock()
	e := b.open[id]
	b.mu.Unlock()
	if e == nil {
		return nil
	}
	select {
	case <-e.over:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
