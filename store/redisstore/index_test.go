package redisstore_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/redisstore"
	"github.com/stretchr/testify/require"
)

func TestFenceSource(t *testing.T) {
	url := sharedURL(t)
	p := prefix(t, url)
	st := open(t, url, redisstore.WithPrefix(p))
	first := acquire(t, st, claim("k")).Lease
	require.NoError(t, st.Release(t.Context(), first))
	keys := keysOf(t, url, p+":*:fence")
	require.Len(t, keys, 1)

	t.Run("a fence grows although the count was lost", func(t *testing.T) {
		require.NoError(t, command(t, url, "DEL", keys[0]).Error())
		l := acquire(t, st, claim("k")).Lease
		require.Greater(t, l.Fence, first.Fence)
		require.NoError(t, st.Release(t.Context(), l))
	})
	t.Run("a fence grows although the clock was set back", func(t *testing.T) {
		ahead := uint64(time.Now().Add(240 * time.Hour).UnixMicro())
		require.NoError(t, command(t, url, "SET", keys[0], fmt.Sprint(ahead)).Error())
		l := acquire(t, st, claim("k")).Lease
		require.Equal(t, ahead+1, l.Fence)
		require.NoError(t, st.Release(t.Context(), l))
		require.Equal(t, ahead+2, acquire(t, st, claim("k")).Lease.Fence)
	})
}

// What expires leaves the index with a later claim in its shard, or with a Purge: it does not pile up.
func TestIndexIsTidied(t *testing.T) {
	url := sharedURL(t)
	p := prefix(t, url)
	st := open(t, url, redisstore.WithPrefix(p))
	indexed := func(t *testing.T) int64 {
		t.Helper()
		keys := keysOf(t, url, p+":*:pending")
		var sum int64
		for _, k := range keys {
			n, err := command(t, url, "ZCARD", k).AsInt64()
			require.NoError(t, err)
			sum += n
		}
		return sum
	}
	brief := func(t *testing.T, key string) {
		t.Helper()
		c := claim(key)
		c.Lease, c.Retention = 0, time.Millisecond
		acquire(t, st, c)
		tick := time.NewTicker(poll)
		defer tick.Stop()
		for begun := time.Now(); ; <-tick.C {
			if _, err := st.Find(t.Context(), c.ID); err != nil {
				require.ErrorIs(t, err, store.ErrNotFound)
				return
			}
			require.Less(t, time.Since(begun), patience)
		}
	}
	t.Run("by a later claim", func(t *testing.T) {
		brief(t, "k")
		require.EqualValues(t, 1, indexed(t))
		// One claim in eight does it, so that some thousands can't all pass it by.
		for range 5000 {
			require.NoError(t, st.Release(t.Context(), acquire(t, st, claim("k")).Lease))
			if indexed := indexed(t); indexed == 0 {
				return
			}
		}
		t.Fatal("what has expired is still in the index")
	})
	t.Run("by Purge, in batches", func(t *testing.T) {
		for i := range 7 {
			brief(t, fmt.Sprint(i))
		}
		var got []int
		for n := 3; n == 3; {
			var err error
			n, err = st.Purge(t.Context(), 3)
			require.NoError(t, err)
			got = append(got, n)
		}
		// Two that share a shard may be one, since the later claim may have tidied up.
		require.LessOrEqual(t, len(got), 3)
		require.Zero(t, indexed(t))
	})
	t.Run("what is settled or removed is in no index", func(t *testing.T) {
		for i := range 8 {
			l := acquire(t, st, claim(fmt.Sprint("settled ", i))).Lease
			if i%2 == 0 {
				require.NoError(t, st.Complete(t.Context(), l, store.Outcome{}))
			} else {
				require.NoError(t, st.Release(t.Context(), l))
			}
		}
		require.Zero(t, indexed(t))
	})
}
