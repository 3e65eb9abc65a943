package memstore_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/memstore"
	"github.com/redo-go/redo/store/storetest"
)

func open(t *testing.T) store.Store {
	st := memstore.New()
	t.Cleanup(func() { _ = st.Close() })
	return st
}

// A memstore's second handle is itself.
func itself(_ *testing.T, first store.Store) store.Store { return first }

// Only closing makes a memstore fail.
func fail(_ *testing.T, st store.Store, f storetest.Fault) (heal func()) {
	if f != storetest.Closed {
		return nil
	}
	_ = st.(*memstore.Store).Close()
	return func() {}
}

func TestContract(t *testing.T) {
	opts := []storetest.Option{storetest.Beside(itself), storetest.Faults(fail)}
	t.Run("virtual time", func(t *testing.T) { storetest.Run(t, open, append(opts, storetest.Virtual())...) })
	t.Run("real time", func(t *testing.T) { storetest.Run(t, open, opts...) })
}

func TestCloseMayBeCalledTwice(t *testing.T) {
	st := memstore.New()
	require.NoError(t, st.Check(t.Context()))
	require.NoError(t, st.Close())
	require.NoError(t, st.Close())
	require.ErrorIs(t, st.Check(t.Context()), store.ErrUnavailable)
}

func TestCheckEndsWithItsContext(t *testing.T) {
	st := memstore.New()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, st.Check(ended), context.Canceled)
}

func TestCloseEndsEveryWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New()
		g, err := st.Reserve(t.Context(), store.Claim{ID: store.ID{Key: "k"}, Retention: store.Forever})
		require.NoError(t, err)
		errs := make(chan error, 64)
		for range cap(errs) {
			go func() { errs <- st.Wait(t.Context(), g.Lease.ID, g.Lease.Fence) }()
		}
		synctest.Wait()
		require.Empty(t, errs)
		require.NoError(t, st.Close())
		for range cap(errs) {
			require.ErrorIs(t, <-errs, store.ErrUnavailable)
		}
	})
}

func TestWaitEndsExactlyAtTheExpiry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New()
		start := time.Now()
		g, err := st.Reserve(t.Context(),
			store.Claim{ID: store.ID{Key: "k"}, Lease: time.Second, Retention: time.Minute})
		require.NoError(t, err)
		time.AfterFunc(30*time.Second, func() {
			// From 30 s to 90 s: past the first expiry.
			if err := st.Extend(t.Context(), g.Lease, time.Minute, nil); err != nil {
				t.Error(err)
			}
		})
		require.NoError(t, st.Wait(t.Context(), g.Lease.ID, g.Lease.Fence))
		require.Equal(t, 90*time.Second, time.Since(start))
	})
}

func TestWaitEndsExactlyAtAChange(t *testing.T) {
	c := store.Claim{ID: store.ID{Key: "k"}, Retention: time.Hour}
	for name, change := range map[string]func(ctx context.Context, st *memstore.Store, l store.Lease) error{
		"complete": func(ctx context.Context, st *memstore.Store, l store.Lease) error {
			return st.Complete(ctx, l, store.Outcome{})
		},
		"release": func(ctx context.Context, st *memstore.Store, l store.Lease) error { return st.Release(ctx, l) },
		"take-over": func(ctx context.Context, st *memstore.Store, _ store.Lease) error {
			_, err := st.Reserve(ctx, c)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st := memstore.New()
				start := time.Now()
				g, err := st.Reserve(t.Context(), c)
				require.NoError(t, err)
				time.AfterFunc(33*time.Second, func() {
					if err := change(t.Context(), st, g.Lease); err != nil {
						t.Error(err)
					}
				})
				require.NoError(t, st.Wait(t.Context(), g.Lease.ID, g.Lease.Fence))
				require.Equal(t, 33*time.Second, time.Since(start))
			})
		})
	}
}

func TestWaitReadsEachTenSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var reads atomic.Int64
		st := memstore.New(memstore.WithClock(func() time.Time {
			reads.Add(1)
			return time.Now()
		}))
		g, err := st.Reserve(t.Context(), store.Claim{ID: store.ID{Key: "k"}, Retention: store.Forever})
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), 25*time.Second)
		defer cancel()
		reads.Store(0)
		require.ErrorIs(t, st.Wait(ctx, g.Lease.ID, g.Lease.Fence), context.DeadlineExceeded)
		require.Equal(t, int64(3), reads.Load(), "after 0, 10 and 20 seconds")
	})
}

func TestInstantsAreTheClocks(t *testing.T) {
	now := time.Date(2030, 1, 2, 3, 4, 5, 6, time.UTC)
	st := memstore.New(nil, memstore.WithClock(nil), memstore.WithClock(func() time.Time { return now }))
	created := now
	c := store.Claim{ID: store.ID{Key: "k"}, Lease: time.Minute, Retention: time.Hour}
	_, err := st.Reserve(t.Context(), c)
	require.NoError(t, err)

	now = created.Add(time.Minute - 1)
	r, err := st.Find(t.Context(), c.ID)
	require.NoError(t, err)
	require.Equal(t, store.Record{
		ID:         c.ID,
		State:      store.StatePending,
		Fence:      r.Fence,
		LeaseUntil: created.Add(time.Minute),
		CreatedAt:  created,
		ExpiresAt:  created.Add(time.Hour),
		ReadAt:     now,
	}, r)
	for _, step := range []struct {
		at   time.Duration
		want store.Verdict
	}{
		{time.Minute - 1, store.InFlight}, {time.Minute, store.TakenOver},
		{time.Minute + time.Hour - 1, store.TakenOver}, {2*time.Hour + time.Minute - 1, store.Acquired},
	} {
		now = created.Add(step.at)
		g, err := st.Reserve(t.Context(), c)
		require.NoError(t, err)
		require.Equal(t, step.want, g.Verdict, "after %v", step.at)
	}
}

func TestNilClockIsTheDefault(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stopped := func() time.Time { return time.Time{} }
		st := memstore.New(memstore.WithClock(stopped), memstore.WithClock(nil))
		g, err := st.Reserve(t.Context(), store.Claim{ID: store.ID{Key: "k"}, Retention: store.Forever})
		require.NoError(t, err)
		require.Equal(t, time.Now(), g.Record.ReadAt)
	})
}

func TestListEndsWithItsContext(t *testing.T) {
	st := memstore.New()
	for _, key := range []string{"1", "2"} {
		_, err := st.Reserve(t.Context(), store.Claim{ID: store.ID{Key: key}, Retention: store.Forever})
		require.NoError(t, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var keys []string
	var errs []error
	for r, err := range st.Pending(ctx, "") {
		keys, errs = append(keys, r.ID.Key), append(errs, err)
		cancel() // in the loop's body
	}
	require.Equal(t, []string{"1", ""}, keys)
	require.Equal(t, []error{nil, context.Canceled}, errs)
}
