package store_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/memstore"
	"github.com/redo-go/redo/store/storetest"
)

// A counting store counts reads, and fails them if err is set.
type counting struct {
	store.Store
	reads atomic.Int32
	err   error
	hang  bool
}

func (c *counting) Find(ctx context.Context, id store.ID) (store.Record, error) {
	c.reads.Add(1)
	if c.hang {
		<-ctx.Done()
		return store.Record{}, ctx.Err()
	}
	if c.err != nil {
		return store.Record{}, c.err
	}
	return c.Store.Find(ctx, id)
}

func pending(t *testing.T) (*counting, store.Lease) {
	t.Helper()
	st := &counting{Store: memstore.New()}
	g, err := st.Reserve(t.Context(), nightly)
	require.NoError(t, err)
	return st, g.Lease
}

// polled is a store whose Wait is a Poller's.
type polled struct {
	store.Store
	*store.Poller
}

func TestPollerKeepsTheContractOfAWaiter(t *testing.T) {
	storetest.Run(t, func(*testing.T) store.Store {
		st := memstore.New()
		return polled{st, store.Poll(st)}
	}, storetest.Virtual())
}

func TestPollReadsAfterPausesThatDouble(t *testing.T) {
	for _, c := range []struct{ settled, want time.Duration }{
		{10 * time.Millisecond, 25 * time.Millisecond},
		{26 * time.Millisecond, 75 * time.Millisecond},
		{700 * time.Millisecond, 775 * time.Millisecond},
		{800 * time.Millisecond, 1175 * time.Millisecond},
		{1200 * time.Millisecond, 1575 * time.Millisecond},
	} {
		t.Run(fmt.Sprint(c.settled), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st, l := pending(t)
				start := time.Now()
				time.AfterFunc(c.settled, func() { _ = st.Complete(t.Context(), l, store.Outcome{}) })
				require.NoError(t, store.Poll(st).Wait(t.Context(), l.ID, l.Fence))
				require.Equal(t, c.want, time.Since(start))
			})
		})
	}
}

func TestPollReadsOnceForAllWaitersOfARecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, l := pending(t)
		p := store.Poll(st)
		errs := make(chan error, 64)
		for range cap(errs) {
			go func() { errs <- p.Wait(t.Context(), l.ID, l.Fence) }()
		}
		synctest.Wait()
		require.EqualValues(t, 1, st.reads.Load())
		require.NoError(t, st.Complete(t.Context(), l, store.Outcome{}))
		for range cap(errs) {
			require.NoError(t, <-errs)
		}
		require.EqualValues(t, 2, st.reads.Load())
	})
}

func TestPollEndsWithItsLastWaiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, l := pending(t)
		p := store.Poll(st)
		wait := func(d time.Duration) error {
			ctx, cancel := context.WithTimeout(t.Context(), d)
			defer cancel()
			return p.Wait(ctx, l.ID, l.Fence)
		}
		first := make(chan error, 1)
		go func() { first <- wait(30 * time.Millisecond) }()
		require.ErrorIs(t, wait(60*time.Millisecond), context.DeadlineExceeded)
		require.ErrorIs(t, <-first, context.DeadlineExceeded)
		require.EqualValues(t, 2, st.reads.Load(), "the second waiter outlives the first, and the poll goes on")
		time.Sleep(time.Minute)
		require.EqualValues(t, 2, st.reads.Load())

		require.ErrorIs(t, wait(30*time.Millisecond), context.DeadlineExceeded)
		require.EqualValues(t, 4, st.reads.Load(), "a later waiter begins a new poll")
	})
}

func TestPollReturnsTheErrorOfARead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, l := pending(t)
		st.err = errors.New("down")
		p := store.Poll(st)
		require.ErrorIs(t, p.Wait(t.Context(), l.ID, l.Fence), st.err)
		st.err = nil
		require.NoError(t, st.Complete(t.Context(), l, store.Outcome{}))
		require.NoError(t, p.Wait(t.Context(), l.ID, l.Fence), "the next Wait reads again")
	})
}

func TestPollBoundsAReadThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, l := pending(t)
		st.hang = true
		start := time.Now()
		require.ErrorIs(t, store.Poll(st).Wait(t.Context(), l.ID, l.Fence), context.DeadlineExceeded)
		require.Equal(t, 5*time.Second, time.Since(start))
	})
}

func TestWakeReadsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, l := pending(t)
		p := store.Poll(st)
		errs := make(chan error, 2)
		for range cap(errs) {
			go func() { errs <- p.Wait(t.Context(), l.ID, l.Fence) }()
		}
		synctest.Wait()
		p.Wake(store.ID{Key: "another"})
		synctest.Wait()
		require.EqualValues(t, 1, st.reads.Load(), "another record's change wakes none")
		p.Wake(l.ID)
		synctest.Wait()
		require.EqualValues(t, 2, st.reads.Load())
		require.NoError(t, st.Complete(t.Context(), l, store.Outcome{}))
		start := time.Now()
		p.Wake(l.ID)
		require.NoError(t, <-errs)
		require.NoError(t, <-errs)
		require.Zero(t, time.Since(start))
		require.EqualValues(t, 3, st.reads.Load())
	})
}

func TestPushedChangesMakeReadsRare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, l := pending(t)
		p := store.Poll(st)
		p.Pushed(true)
		errs := make(chan error, 1)
		go func() { errs <- p.Wait(t.Context(), l.ID, l.Fence) }()
		time.Sleep(31 * time.Second)
		synctest.Wait()
		require.EqualValues(t, 4, st.reads.Load(), "immediately, and after 10, 20 and 30 s")
		p.Pushed(false)
		synctest.Wait()
		require.EqualValues(t, 5, st.reads.Load(), "a change may have been missed")
		time.Sleep(time.Second)
		synctest.Wait()
		require.EqualValues(t, 7, st.reads.Load(), "after 400 ms, as without pushes")
		require.NoError(t, st.Complete(t.Context(), l, store.Outcome{}))
		p.Pushed(true)
		synctest.Wait()
		require.NoError(t, <-errs)
	})
}

func TestPollReadsAtTheExpiry(t *testing.T) {
	for name, pushed := range map[string]bool{"without pushes": false, "with pushes": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st := &counting{Store: memstore.New()}
				c := nightly
				c.Lease, c.Retention = 0, 90*time.Millisecond
				g, err := st.Reserve(t.Context(), c)
				require.NoError(t, err)
				p := store.Poll(st)
				p.Pushed(pushed)
				start := time.Now()
				require.NoError(t, p.Wait(t.Context(), g.Lease.ID, g.Lease.Fence))
				require.Equal(t, 90*time.Millisecond, time.Since(start))
			})
		})
	}
}

func TestPollDoesNotBoundAReadOfAnEngineThatPushes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, l := pending(t)
		st.hang = true
		p := store.Poll(st)
		p.Pushed(true)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		start := time.Now()
		require.ErrorIs(t, p.Wait(ctx, l.ID, l.Fence), context.DeadlineExceeded)
		require.Equal(t, time.Minute, time.Since(start))
	})
}

func TestPollDoesNotReadWhatAnOpenTransactionHolds(t *testing.T) {
	st, l := pending(t)
	require.NoError(t, store.Poll(st).Wait(t.Context(), l.ID, 0))
	require.Zero(t, st.reads.Load())
}

// An engine that can't push notices returns a Poller's Wait as its own.
func ExamplePoll() {
	ctx := context.Background()
	st := memstore.New() // an engine without a Wait
	defer st.Close()
	var waiter store.Waiter = store.Poll(st)

	g, _ := st.Reserve(ctx, store.Claim{ID: store.ID{Key: "order-7"}, Lease: time.Minute, Retention: time.Hour})
	time.AfterFunc(time.Millisecond, func() { _ = st.Complete(ctx, g.Lease, store.Outcome{Result: []byte("paid")}) })

	fmt.Println(waiter.Wait(ctx, g.Lease.ID, g.Lease.Fence))
	rec, _ := st.Find(ctx, g.Lease.ID)
	fmt.Printf("%s: %s\n", rec.State, rec.Result)
	// Output:
	// <nil>
	// complete: paid
}
