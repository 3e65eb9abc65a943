package redisstore_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/redo-go/redo/store"
	"github.com/stretchr/testify/require"
)

// A restart, a failover and SCRIPT FLUSH make a server forget its scripts.
func TestForgottenScripts(t *testing.T) {
	e := privateEngine(t)
	st := open(t, e.url())
	flush := func(t *testing.T) {
		t.Helper()
		require.NoError(t, command(t, e.url(), "SCRIPT", "FLUSH").Error())
	}
	t.Run("each call loads the script that it needs", func(t *testing.T) {
		flush(t)
		l := acquire(t, st, claim("k")).Lease
		flush(t)
		require.NoError(t, st.Extend(t.Context(), l, 0, nil))
		flush(t)
		_, err := st.Find(t.Context(), l.ID)
		require.NoError(t, err)
		flush(t)
		n := 0
		for _, err := range st.Pending(t.Context(), "scope") {
			require.NoError(t, err)
			n++
		}
		require.Equal(t, 1, n)
		flush(t)
		require.NoError(t, st.Complete(t.Context(), l, store.Outcome{}))
		flush(t)
		require.NoError(t, st.Wait(t.Context(), l.ID, l.Fence))
		flush(t)
		_, err = st.Purge(t.Context(), 1)
		require.NoError(t, err)
		flush(t)
		require.NoError(t, st.Forget(t.Context(), l))
		l = acquire(t, st, claim("k")).Lease
		flush(t)
		require.NoError(t, st.Release(t.Context(), l))
	})
	t.Run("callers at work notice nothing", func(t *testing.T) {
		var wg sync.WaitGroup
		errs := make(chan error, 16)
		for i := range cap(errs) {
			wg.Go(func() {
				for n := range 50 {
					c := claim(fmt.Sprintf("%d-%d", i, n))
					g, err := st.Reserve(t.Context(), c)
					if err == nil {
						err = st.Complete(t.Context(), g.Lease, store.Outcome{Result: []byte(c.ID.Key)})
					}
					if err != nil {
						errs <- err
						return
					}
				}
			})
		}
		for range 20 {
			flush(t)
		}
		wg.Wait()
		close(errs)
		for err := range errs {
			t.Error(err)
		}
	})
}
