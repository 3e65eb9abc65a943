package server_test

import (
	"context"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/server"
	"github.com/redo-go/redo/store"
)

func TestCommit(t *testing.T) {
	t.Run("that fails has done nothing: 503, and the retry runs the handler", func(t *testing.T) {
		for _, method := range []string{"Commit", "Discard"} {
			b := newBook(failing(method, store.ErrUnavailable))
			var seen recorder
			run := map[string]http.HandlerFunc{"Commit": created, "Discard": answer(422, "x")}[method]
			g := newBookRig(t, b, writing("refund", func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Location", "/refunds/rf_123")
				run(w, r)
			}), server.Observe(&seen))
			w := g.do()
			p := requireProblem(t, w, 503, "DEPENDENCY.unavailable")
			require.True(t, p.Retryable)
			require.Contains(t, p.Detail, "Nothing was done")
			require.Contains(t, []string{"1", "2"}, w.Header().Get("Retry-After"))
			require.Empty(t, w.Header().Get("Location"), "nothing of the withdrawn response is left")
			require.Equal(t, 1, b.count(method), "it is over, and not tried again")
			require.Zero(t, b.count("Find"))
			require.Equal(t, server.Unavailable, seen.events[0].Kind)
			require.Zero(t, seen.events[0].To)
			b.heal()
			require.Empty(t, b.committed())
			require.Equal(t, map[string]int{"Commit": 201, "Discard": 422}[method], g.do().Code)
			require.Equal(t, 2, g.ran())
		}
	})
	t.Run("that takes longer than the store's timeout is given up", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := newBook(nil)
			g := newBookRig(t, b, nil, server.StoreTimeout(2*time.Second))
			b.on = func(method string, _ int, do func() error) error {
				if method == "Commit" {
					time.Sleep(2*time.Second + time.Nanosecond)
				}
				return do() // which fails on a context that has ended
			}
			requireProblem(t, g.do(), 503, "DEPENDENCY.unavailable")
			require.Empty(t, b.committed())
		})
	})
	t.Run("whose response was lost, and that was made, gets its response", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := newBook(func(method string, _ int, do func() error) error {
				err := do()
				if method == "Commit" {
					time.Sleep(time.Minute) // beyond the store's timeout: the read has its own time
					return store.ErrUnknown
				}
				return err
			})
			g := newBookRig(t, b, writing("refund", created))
			requireStored(t, g.do(), 201, `{"id":"rf_123"}`)
			require.Equal(t, 1, b.count("Find"))
			requireReplayed(t, g.do(), 201, `{"id":"rf_123"}`)
			require.Equal(t, []string{"refund"}, b.committed())
		})
	})
	t.Run("whose response was lost, and that shows late, is looked for until it does", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := newBook(func(method string, nth int, do func() error) error {
				if method == "Find" && nth < 3 {
					return []error{store.ErrNotFound, store.ErrUnavailable, store.ErrNotFound}[nth]
				}
				err := do()
				if method == "Commit" {
					return store.ErrUnknown
				}
				return err
			})
			g := newBookRig(t, b, writing("refund", created))
			start := time.Now()
			requireStored(t, g.do(), 201, `{"id":"rf_123"}`)
			require.Equal(t, 350*time.Millisecond, time.Since(start), "pauses of 50, 100 and 200 ms")
		})
	})
	t.Run("whose response was lost, and that does not show, is 503 and never the handler's success",
		func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBook(failing("Commit", store.ErrUnknown))
				var seen recorder
				g := newBookRig(t, b, writing("refund", created), server.Observe(&seen))
				w := g.do()
				p := requireProblem(t, w, 503, "DEPENDENCY.unavailable")
				require.NotContains(t, p.Detail, "Nothing was done", "the outcome is not known yet")
				require.Contains(t, []string{"1", "2"}, w.Header().Get("Retry-After"))
				require.Equal(t, 4, b.count("Find"))
				require.Equal(t, 1, b.count("Commit"))
				require.Equal(t, store.StatePending, seen.events[0].To)
				b.heal()
				requireStored(t, g.do(), 201, `{"id":"rf_123"}`)
				require.Equal(t, []string{"refund"}, b.committed())
			})
		})
	t.Run("whose response was lost, under a record of another owner, is 503", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := newBook(nil)
			b.on = func(method string, nth int, do func() error) error {
				if method == "Find" && nth == 0 {
					g, err := b.Store.Reserve(t.Context(), store.Claim{ID: refundID, Retention: time.Hour})
					require.NoError(t, err)
					require.NoError(t, b.Store.Complete(t.Context(), g.Lease, store.Outcome{}))
				}
				if method == "Commit" {
					return store.ErrUnknown
				}
				return do()
			}
			requireProblem(t, newBookRig(t, b, created).do(), 503, "DEPENDENCY.unavailable")
		})
	})
	t.Run("whose response was lost, under its own record that is still pending, is 503", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := &stillPending{book: newBook(failing("Commit", store.ErrUnknown))}
			g := newRig(t, b, created, server.Transactional[*pen]())
			requireProblem(t, g.do(), 503, "DEPENDENCY.unavailable")
		})
	})
	t.Run("is not made when a rollback fails: the transaction is over all the same", func(t *testing.T) {
		b := newBook(failing("Rollback", store.ErrUnavailable))
		g := newBookRig(t, b, writing("refund", answer(500, "x")))
		for range 2 {
			requireReleased(t, g.do(), 500)
		}
		require.Equal(t, 2, g.ran())
		require.Empty(t, b.committed())
	})
}

// stillPending is a book that shows, under the fence of its last transaction, a record that is not settled.
type stillPending struct {
	*book
	fence uint64
}

func (s *stillPending) Begin(ctx context.Context, c store.Claim) (store.Tx[*pen], store.Grant, error) {
	tx, g, err := s.book.Begin(ctx, c)
	s.fence = g.Lease.Fence
	return tx, g, err
}

func (s *stillPending) Find(_ context.Context, id store.ID) (store.Record, error) {
	return store.Record{ID: id, State: store.StatePending, Fence: s.fence}, nil
}
