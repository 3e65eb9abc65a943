package redisstore_test

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/redisstore"
	"github.com/stretchr/testify/require"
)

const (
	callers     = 64
	beforeCrash = 1500 // acknowledged writes
)

// With appendonly yes and appendfsync always, acknowledged writes survive the server's SIGKILL. An unknown write is
// either there or not. An unavailable write is not there.
func TestServerKilled(t *testing.T) {
	e := privateEngine(t, "--appendonly", "yes", "--appendfsync", "always")
	st := open(t, e.url())
	for round := range 3 {
		var (
			wg        sync.WaitGroup
			written   atomic.Int64
			enough    = make(chan struct{})
			restarted = make(chan struct{})
			works     [callers]work
		)
		for i := range works {
			w := &works[i]
			wg.Go(func() {
				w.until(t, st, fmt.Sprintf("%d-%d", round, i), func() {
					if written.Add(1) == beforeCrash {
						close(enough)
					}
				})
				<-restarted
				w.verify(t, st)
			})
		}
		<-enough
		e.kill()
		require.NoError(t, e.start())
		close(restarted)
		wg.Wait()
		require.False(t, t.Failed())
	}
}

// A work holds the calls of one caller, and their outcomes.
type work struct {
	settled []store.Lease // completed, acknowledged
	last    store.Claim   // whose Reserve or Complete failed
	lease   store.Lease   // zero: it was Reserve
	err     error
}

// until reserves and completes until a call fails.
func (w *work) until(t *testing.T, st *redisstore.Store, name string, acknowledged func()) {
	for n := 0; ; n++ {
		w.last, w.lease = claim(fmt.Sprintf("%s-%d", name, n)), store.Lease{}
		g, err := st.Reserve(t.Context(), w.last)
		if w.err = err; err != nil {
			return
		}
		acknowledged()
		if g.Verdict != store.Acquired {
			t.Errorf("the verdict on %v is %q", w.last.ID, g.Verdict)
		}
		w.lease = g.Lease
		if w.err = st.Complete(t.Context(), g.Lease, store.Outcome{Result: []byte(name)}); w.err != nil {
			return
		}
		acknowledged()
		w.settled = append(w.settled, g.Lease)
	}
}

// verify compares the records on the server with the outcomes of the calls.
func (w *work) verify(t *testing.T, st *redisstore.Store) {
	for _, l := range w.settled {
		r, err := findAgain(t, st, l.ID)
		if err != nil || r.State != store.StateComplete || r.Fence != l.Fence {
			t.Errorf("%v was completed under fence %d; found is %q under %d, error %v",
				l.ID, l.Fence, r.State, r.Fence, err)
		}
	}
	unknown := errors.Is(w.err, store.ErrUnknown)
	if unknown == errors.Is(w.err, store.ErrUnavailable) {
		t.Errorf("a call failed with %v, want one that is either unknown or unavailable", w.err)
	}
	r, err := findAgain(t, st, w.last.ID)
	switch {
	case w.lease.Fence == 0 && errors.Is(err, store.ErrNotFound): // the reservation was not made
	case w.lease.Fence == 0 && err == nil && unknown && r.State == store.StatePending:
	case w.lease.Fence != 0 && err == nil && r.State == store.StatePending && r.Fence == w.lease.Fence:
	case w.lease.Fence != 0 && err == nil && unknown && r.State == store.StateComplete && r.Fence == w.lease.Fence:
	default:
		t.Errorf("%v was reserved under fence %d and failed with %v; found is %q under %d, error %v",
			w.last.ID, w.lease.Fence, w.err, r.State, r.Fence, err)
	}
}

// findAgain looks until the server, which has been started again, is reached.
func findAgain(t *testing.T, st *redisstore.Store, id store.ID) (r store.Record, err error) {
	tick := time.NewTicker(poll)
	defer tick.Stop()
	for begun := time.Now(); time.Since(begun) < patience; <-tick.C {
		if r, err = st.Find(t.Context(), id); !errors.Is(err, store.ErrUnavailable) {
			break
		}
	}
	return r, err
}

func TestServerDownLater(t *testing.T) {
	e := privateEngine(t, "--appendonly", "yes", "--appendfsync", "always")
	st := open(t, e.url())
	l := acquire(t, st, claim("k")).Lease
	e.kill()
	// The connections that were open find out with their next call, which may have been on its way.
	tick := time.NewTicker(poll)
	defer tick.Stop()
	for begun := time.Now(); ; <-tick.C {
		_, err := st.Reserve(t.Context(), claim("down"))
		if errors.Is(err, store.ErrUnavailable) {
			break
		}
		require.ErrorIs(t, err, store.ErrUnknown)
		require.Less(t, time.Since(begun), patience)
	}
	require.ErrorIs(t, st.Check(t.Context()), store.ErrUnavailable)
	require.ErrorIs(t, st.Wait(t.Context(), l.ID, l.Fence), store.ErrUnavailable)
	_, err := st.Purge(t.Context(), 1)
	require.ErrorIs(t, err, store.ErrUnavailable)

	require.NoError(t, e.start())
	r, err := findAgain(t, st, l.ID)
	require.NoError(t, err)
	require.Equal(t, l.Fence, r.Fence)
	_, err = findAgain(t, st, claim("down").ID)
	require.ErrorIs(t, err, store.ErrNotFound)
}
