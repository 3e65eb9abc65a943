package boltstore

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redo-go/redo/internal/fakeclock"
	"github.com/redo-go/redo/store"
	"github.com/stretchr/testify/require"
	"go.etcd.io/bbolt"
)

// What the owner of a lease may do.
var underLease = map[string]func(context.Context, *Store, store.Lease) error{
	"Extend":   func(ctx context.Context, s *Store, l store.Lease) error { return s.Extend(ctx, l, time.Hour, nil) },
	"Complete": func(ctx context.Context, s *Store, l store.Lease) error { return s.Complete(ctx, l, store.Outcome{}) },
	"lazy Complete": func(ctx context.Context, s *Store, l store.Lease) error {
		return s.Complete(ctx, l, store.Outcome{Lazy: true})
	},
	"Release": func(ctx context.Context, s *Store, l store.Lease) error { return s.Release(ctx, l) },
	"Forget":  func(ctx context.Context, s *Store, l store.Lease) error { return s.Forget(ctx, l) },
}

func TestHeldID(t *testing.T) {
	// hold opens a transaction over a record without a lease, or over none.
	hold := func(t *testing.T, standing bool) (*Store, store.Record, store.Tx[*Tx], store.Grant) {
		s, c := mustOpen(t, tempFile(t)), claim("k")
		c.Lease = 0
		var r store.Record
		want := store.Acquired
		if standing {
			r, want = mustReserve(t, s, c, store.Acquired).Record, store.TakenOver
		}
		tx, g := mustBegin(t, s, c, want)
		return s, r, tx, g
	}
	both := func(t *testing.T, f func(t *testing.T, standing bool)) {
		for name, standing := range map[string]bool{"over no record": false, "over a pending one": true} {
			t.Run(name, func(t *testing.T) { f(t, standing) })
		}
	}
	t.Run("is in flight to everybody else at once, and a mismatch with another payload", func(t *testing.T) {
		both(t, func(t *testing.T, standing bool) {
			s, _, tx, _ := hold(t, standing)
			before := s.Stats()
			other := claim("k")
			other.Fingerprint = store.Raw("POST", "/refunds", "", []byte("another body"))
			unseen := store.Record{ID: other.ID, State: store.StatePending}
			for _, c := range []struct {
				claim store.Claim
				want  store.Verdict
			}{{claim("k"), store.InFlight}, {other, store.Mismatch}} {
				g := mustReserve(t, s, c.claim, c.want)
				g.Record.ReadAt = time.Time{}
				require.Equal(t, unseen, g.Record)
				_, g = mustBegin(t, s, c.claim, c.want)
				g.Record.ReadAt = time.Time{}
				require.Equal(t, unseen, g.Record)
			}
			require.NoError(t, tx.Rollback(t.Context()))
			require.Equal(t, before, s.Stats())
		})
	})
	t.Run("can't be changed from outside by who does not own what stood before", func(t *testing.T) {
		both(t, func(t *testing.T, standing bool) {
			s, r, tx, g := hold(t, standing)
			before := s.Stats()
			for name, l := range map[string]store.Lease{
				"a later owner's":        {ID: g.Lease.ID, Fence: r.Fence + 9},
				"the transaction's":      g.Lease,
				"of what InFlight shows": mustReserve(t, s, claim("k"), store.InFlight).Record.Lease(),
			} {
				for what, call := range underLease {
					require.ErrorIs(t, call(t.Context(), s, l), store.ErrLost, "%s under %s lease", what, name)
				}
			}
			require.Equal(t, before, s.Stats())
			require.NoError(t, tx.Commit(t.Context(), store.Outcome{}))
			require.Equal(t, g.Lease.Fence, find(t, s, "k").Fence)
		})
	})
	t.Run("answers its earlier owner when the transaction is over", func(t *testing.T) {
		for what, call := range underLease {
			if what == "Forget" {
				continue // nothing pending is forgotten
			}
			for end, want := range map[string]error{"Commit": store.ErrLost, "Discard": store.ErrLost, "Rollback": nil} {
				t.Run(what+" after "+end, func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						s, r, tx, _ := hold(t, true)
						before := s.Stats()
						ctx, cancel := context.WithCancel(t.Context())
						canceled, answered := make(chan error, 1), make(chan error, 1)
						go func() { canceled <- call(ctx, s, r.Lease()) }()
						go func() { answered <- call(t.Context(), s, r.Lease()) }()
						synctest.Wait()
						require.Empty(t, answered)
						cancel()
						require.ErrorIs(t, <-canceled, context.Canceled)
						require.Equal(t, before, s.Stats())
						if end == "Rollback" {
							require.NoError(t, tx.Rollback(t.Context()))
						} else {
							require.NoError(t, settling[end](tx, t.Context(), store.Outcome{}))
						}
						if err := <-answered; want == nil {
							require.NoError(t, err)
						} else {
							require.ErrorIs(t, err, want)
						}
						require.NoError(t, s.Close())
					})
				})
			}
		}
	})
	t.Run("reads as what stood before", func(t *testing.T) {
		s, r, tx, _ := hold(t, true)
		again := find(t, s, "k")
		again.ReadAt = r.ReadAt
		require.Equal(t, r, again)
		require.Equal(t, []string{"k"}, pendingKeys(t, s, ""))
		require.NoError(t, tx.Commit(t.Context(), store.Outcome{}))
		require.Empty(t, pendingKeys(t, s, ""))

		s, _, tx, g := hold(t, false)
		_, err := s.Find(t.Context(), g.Lease.ID)
		require.ErrorIs(t, err, store.ErrNotFound)
		require.Empty(t, pendingKeys(t, s, ""))
		require.NoError(t, tx.Commit(t.Context(), store.Outcome{}))
	})
	t.Run("keeps its record from Purge", func(t *testing.T) {
		for name, late := range map[string]time.Duration{"that has expired": time.Minute, "that expires meanwhile": 0} {
			t.Run(name, func(t *testing.T) {
				clock := fakeclock.At(1)
				s := mustOpen(t, tempFile(t), withClock(clock.Read))
				c := claim("k")
				c.Lease, c.Retention = 0, time.Minute
				mustReserve(t, s, c, store.Acquired)
				clock.Wall.Add(int64(late))
				want := store.TakenOver
				if late > 0 {
					want = store.Acquired
				}
				c.Retention = time.Hour
				tx, g := mustBegin(t, s, c, want)
				clock.Wall.Add(int64(2 * time.Minute))
				_, err := s.Find(t.Context(), c.ID)
				require.ErrorIs(t, err, store.ErrNotFound)
				mustReserve(t, s, c, store.InFlight)
				purged := make(chan error, 1)
				go func() {
					n, err := s.Purge(t.Context(), 10)
					if n > 0 {
						err = fmt.Errorf("%d purged", n)
					}
					purged <- err
				}()
				require.NoError(t, tx.Commit(t.Context(), store.Outcome{}))
				require.NoError(t, <-purged)
				require.Equal(t, g.Lease.Fence, find(t, s, "k").Fence)
				checkIndexes(t, s)
			})
		}
	})
	t.Run("wakes those who wait when its transaction is over", func(t *testing.T) {
		both(t, func(t *testing.T, standing bool) {
			s, r, tx, g := hold(t, standing)
			require.NoError(t, s.Wait(t.Context(), g.Lease.ID, g.Lease.Fence+1), "another fence's record is not pending")
			woken := make(chan error, 3)
			fences := []uint64{0, g.Lease.Fence}
			if standing {
				fences = append(fences, r.Fence)
			}
			for _, fence := range fences {
				go func() { woken <- s.Wait(t.Context(), g.Lease.ID, fence) }()
			}
			waiting(t, s, len(fences))
			require.Empty(t, woken)
			require.NoError(t, tx.Commit(t.Context(), store.Outcome{}))
			for range fences {
				require.NoError(t, <-woken)
			}
			waiting(t, s, 0)
		})
	})
	t.Run("that is rolled back wakes those who were told InFlight", func(t *testing.T) {
		s, r, tx, g := hold(t, true)
		woken, still := make(chan error, 1), make(chan error, 1)
		ctx, cancel := context.WithCancel(t.Context())
		go func() { woken <- s.Wait(t.Context(), g.Lease.ID, 0) }()
		go func() { still <- s.Wait(ctx, g.Lease.ID, r.Fence) }()
		waiting(t, s, 2)
		require.NoError(t, tx.Rollback(t.Context()))
		require.NoError(t, <-woken)
		waiting(t, s, 1)
		cancel()
		require.ErrorIs(t, <-still, context.Canceled, "the record that stands is pending as before")
	})
}

// waiting waits until n callers wait for a record.
func waiting(t *testing.T, s *Store, n int) {
	t.Helper()
	require.Eventually(t, func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.waiting == n
	}, time.Minute, time.Millisecond)
}

func TestBeginWaitsForWhatIsNotOnDisk(t *testing.T) {
	t.Run("a durable change that is committed", func(t *testing.T) {
		s, g := gated(t)
		c := claim("k")
		c.Lease = 0
		first := make(chan error, 1)
		go func() {
			_, err := s.Reserve(t.Context(), c)
			first <- err
		}()
		<-g.arrived
		next := beginning(t.Context(), s, "k")
		g.verdict <- (*bbolt.Tx).Commit
		require.NoError(t, <-first)
		b := <-next
		require.NoError(t, b.err)
		require.Equal(t, store.TakenOver, b.grant.Verdict)
		require.NoError(t, b.tx.Rollback(t.Context()))
	})
	t.Run("a durable change that fails", func(t *testing.T) {
		s, g := gated(t)
		first := blocked(t, s, g, "k")
		next := beginning(t.Context(), s, "k")
		g.verdict <- refuse
		require.Error(t, <-first)
		b := <-next
		require.NoError(t, b.err)
		require.Equal(t, store.Acquired, b.grant.Verdict)
		require.NoError(t, b.tx.Rollback(t.Context()))
	})
	t.Run("a lazy outcome, or that would be written over the transaction's", func(t *testing.T) {
		s := mustOpen(t, tempFile(t), WithLazyDelay(time.Hour))
		mustSettle(t, s, "k", store.Outcome{Result: []byte("old"), Retention: 1, Lazy: true})
		before := s.Stats()
		tx, g := mustBegin(t, s, claim("k"), store.Acquired)
		require.Equal(t, before.Commits+1, s.Stats().Commits)
		require.Empty(t, s.overlay)
		require.NoError(t, tx.Commit(t.Context(), store.Outcome{Result: []byte("new")}))
		require.NoError(t, s.Close())
		s = mustOpen(t, s.path)
		r := find(t, s, "k")
		require.Equal(t, "new", string(r.Result))
		require.Equal(t, g.Lease.Fence, r.Fence)
	})
	t.Run("a lazy outcome that can't be committed", func(t *testing.T) {
		for _, verdict := range []func(*bbolt.Tx) error{refuse, betray} {
			f := fails{}
			s := mustOpen(t, tempFile(t), WithLazyDelay(time.Hour), f.option())
			mustSettle(t, s, "k", store.Outcome{Retention: 1, Lazy: true})
			f.how = verdict
			tx, _, err := s.Begin(t.Context(), claim("k"))
			require.ErrorIs(t, err, store.ErrUnavailable)
			require.NotErrorIs(t, err, store.ErrUnknown, "Begin has changed nothing")
			require.Nil(t, tx)
			f.how = nil
			mustBegin(t, s, claim("k"), store.Acquired)
		}
	})
	t.Run("but no lazy outcome of another record", func(t *testing.T) {
		s := mustOpen(t, tempFile(t), WithLazyDelay(time.Hour))
		mustSettle(t, s, "lazy", store.Outcome{Lazy: true})
		before := s.Stats()
		tx, _ := mustBegin(t, s, claim("k"), store.Acquired)
		require.NoError(t, tx.Commit(t.Context(), store.Outcome{}))
		require.Equal(t, before.Commits+1, s.Stats().Commits)
		require.Len(t, s.overlay, 1)
		require.Equal(t, store.StateComplete, find(t, s, "lazy").State)
	})
}

func TestTurn(t *testing.T) {
	t.Run("is waited for no longer than the context lasts, and the ID is free again", func(t *testing.T) {
		s := mustOpen(t, tempFile(t))
		first, _ := mustBegin(t, s, claim("first"), store.Acquired)
		ctx, cancel := context.WithCancel(t.Context())
		second := beginning(ctx, s, "second")
		holding(t, s, 2)
		mustReserve(t, s, claim("second"), store.InFlight)
		woken := make(chan error, 1)
		go func() { woken <- s.Wait(t.Context(), claim("second").ID, 0) }()
		waiting(t, s, 1)
		cancel()
		b := <-second
		require.Equal(t, begun{err: context.Canceled}, b)
		require.NoError(t, <-woken)
		holding(t, s, 1)
		require.NoError(t, first.Commit(t.Context(), store.Outcome{}))
		mustBegin(t, s, claim("second"), store.Acquired)
	})
	t.Run("is not waited for where the answer is known", func(t *testing.T) {
		s := mustOpen(t, tempFile(t))
		mustSettle(t, s, "complete", store.Outcome{})
		mustReserve(t, s, claim("leased"), store.Acquired)
		mustBegin(t, s, claim("first"), store.Acquired)
		mustBegin(t, s, claim("complete"), store.Complete)
		mustBegin(t, s, claim("leased"), store.InFlight)
		require.Equal(t, store.StateComplete, find(t, s, "complete").State)
	})
	t.Run("that comes after a commit of unknown outcome waits for another first", func(t *testing.T) {
		s, g := gated(t)
		first := blocked(t, s, g, "first")
		next := beginning(t.Context(), s, "next")
		holding(t, s, 1)
		g.verdict <- betray
		require.ErrorIs(t, <-first, store.ErrUnknown)
		select {
		case <-g.arrived: // what the transaction reads must be on disk
			require.Empty(t, next)
			g.verdict <- (*bbolt.Tx).Commit
		case b := <-next:
			require.Fail(t, "the transaction was begun", b.err)
		}
		b := <-next
		require.NoError(t, b.err)
		require.NoError(t, b.tx.Rollback(t.Context()))
	})
	t.Run("goes to who came first, be it a transaction or the writer", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := mustOpen(t, tempFile(t))
			tx, _ := mustBegin(t, s, claim("first"), store.Acquired)
			before := beginning(t.Context(), s, "before")
			synctest.Wait()
			reserved := reserving(t, s, "two-step")
			synctest.Wait()
			after := beginning(t.Context(), s, "after")
			synctest.Wait()
			require.NoError(t, tx.Commit(t.Context(), store.Outcome{}))
			synctest.Wait()
			require.Len(t, before, 1)
			require.Empty(t, reserved)
			b := <-before
			require.NoError(t, b.err)
			require.NoError(t, b.tx.Commit(t.Context(), store.Outcome{}))
			synctest.Wait()
			require.Len(t, reserved, 1)
			require.NoError(t, <-reserved)
			a := <-after
			require.NoError(t, a.err)
			require.NoError(t, a.tx.Rollback(t.Context()))
			require.NoError(t, s.Close())
		})
	})
}

func TestOneOf64RacersHasTheEffect(t *testing.T) {
	s := mustOpen(t, tempFile(t))
	for round := range 10 {
		c := claim(fmt.Sprint(round))
		won := make(chan bool, 64)
		start := make(chan struct{})
		before := s.Stats().Commits
		for range 64 {
			go func() {
				<-start
				_, again, err := store.Once(t.Context(), s, c, func(_ context.Context, tx *Tx) (store.Outcome, error) {
					return store.Outcome{Result: []byte("result")}, pay(tx, c.ID.Key)
				})
				won <- err == nil && !again
			}()
		}
		close(start)
		winners := 0
		for range 64 {
			if <-won {
				winners++
			}
		}
		require.Equal(t, 1, winners)
		require.Equal(t, before+1, s.Stats().Commits)
		require.True(t, paid(t, s, c.ID.Key))
	}
	require.Empty(t, s.claims)
}

// bbolt shows a commit to readers before the store releases the claim. Until then Find returns the record as it was
// before, and so must the list.
func TestAListAgreesWithFindWhileATransactionIsCommitted(t *testing.T) {
	s := mustOpen(t, tempFile(t))
	c := store.Claim{ID: store.ID{Scope: "s", Key: "k"}, Retention: time.Hour}
	_, err := s.Reserve(t.Context(), c)
	require.NoError(t, err)
	agree := func() (state store.State) {
		r, err := s.Find(t.Context(), c.ID)
		require.NoError(t, err)
		listed := 0
		for l, err := range s.Pending(t.Context(), "") {
			require.NoError(t, err)
			require.Equal(t, c.ID, l.ID)
			listed++
		}
		require.Equal(t, r.State == store.StatePending, listed == 1, "found %v, listed %d", r.State, listed)
		return r.State
	}
	tx, g, err := s.Begin(t.Context(), c)
	require.NoError(t, err)
	require.Equal(t, store.TakenOver, g.Verdict)
	require.Equal(t, store.StatePending, agree())
	commit := s.commit
	s.commit = func(tx *bbolt.Tx) error {
		err := commit(tx)
		require.Equal(t, store.StatePending, agree(), "the claim is not released yet")
		return err
	}
	require.NoError(t, tx.Commit(t.Context(), store.Outcome{}))
	s.commit = commit
	require.Equal(t, store.StateComplete, agree())
}
