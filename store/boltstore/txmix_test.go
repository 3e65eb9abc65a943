package boltstore

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/taxonomy"
	"github.com/stretchr/testify/require"
	"go.etcd.io/bbolt"
)

// Callers in one step and in two share a file, with commits that fail now and then in every way: each ID has one
// owner, and of those that transactions settle exactly one effect.
func TestOneStepAndTwoStepCallersMix(t *testing.T) {
	const ids, callers = 40, 8
	var n atomic.Uint64
	path := tempFile(t)
	s := mustOpen(t, path, WithLazyDelay(time.Millisecond), withCommit(func(tx *bbolt.Tx) error {
		switch n.Add(1) % 7 {
		case 3:
			return refuse(tx)
		case 5:
			return betray(tx)
		}
		return tx.Commit()
	}))
	var wg sync.WaitGroup
	for w := range callers {
		wg.Go(func() {
			for i := range ids {
				i = (i + w*5) % ids
				for !mixed(t, s, i) {
				}
			}
		})
	}
	stop := make(chan struct{})
	var background sync.WaitGroup
	background.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			_, _ = s.Purge(t.Context(), 100)
			for _, err := range s.Pending(t.Context(), "") {
				if err != nil && !errors.Is(err, store.ErrUnavailable) {
					t.Error(err)
				}
			}
			c := claim(fmt.Sprint("expiring ", i))
			c.Retention, c.Lease = 1, 0
			_, _ = s.Reserve(t.Context(), c)
		}
	})
	wg.Wait()
	close(stop)
	background.Wait()
	require.Empty(t, s.claims)
	require.Nil(t, s.open)
	_ = s.Close() // lazy changes may be lost: the last commit may be one that fails

	s = mustOpen(t, path)
	for i := range ids {
		key := fmt.Sprint(i)
		require.Equal(t, i%2 == 0, effects(t, s, key) == 1, key)
		if i%2 == 0 {
			require.Equal(t, store.StateComplete, find(t, s, key).State, key)
		}
	}
	checkIndexes(t, s)
}

// mixed works on the ID until it is settled: the even ones in one step, the odd ones in two. It reports whether it is.
func mixed(t *testing.T, s *Store, i int) bool {
	c := claim(fmt.Sprint(i))
	if i%2 == 0 {
		_, _, err := store.Once(t.Context(), s, c, func(_ context.Context, tx *Tx) (store.Outcome, error) {
			return store.Outcome{}, addEffect(tx, c.ID.Key)
		})
		if errors.Is(err, taxonomy.InFlight) {
			_ = s.Wait(t.Context(), c.ID, 0)
		} else if err != nil && !errors.Is(err, store.ErrUnavailable) && !errors.Is(err, store.ErrUnknown) {
			t.Error(err)
			return true
		}
		return err == nil
	}
	c.Lease = 0
	g, err := s.Reserve(t.Context(), c)
	if err != nil {
		return false
	}
	if g.Verdict == store.Complete {
		return true
	}
	if g.Verdict.Owned() {
		_ = s.Complete(t.Context(), g.Lease, store.Outcome{Lazy: i%3 == 0})
	}
	return false
}

// addEffect makes one more effect with the key.
func addEffect(tx *Tx, key string) error {
	b, err := tx.CreateBucketIfNotExists(accounts)
	if err != nil {
		return err
	}
	return b.Put([]byte(key), append(b.Get([]byte(key)), 1))
}

func effects(t *testing.T, s *Store, key string) (n int) {
	t.Helper()
	require.NoError(t, s.View(t.Context(), func(tx *Tx) error {
		n = len(tx.Bucket(accounts).Get([]byte(key)))
		return nil
	}))
	return n
}
