package redisstore_test

import (
	"errors"
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
	keys := keysOf(t, url, p+":*:pending")
	require.Len(t, keys, 1)

	t.Run("a fence grows although the count was lost", func(t *testing.T) {
		require.NoError(t, command(t, url, "DEL", keys[0]).Error())
		l := acquire(t, st, claim("k")).Lease
		require.Greater(t, l.Fence, first.Fence)
		require.NoError(t, st.Release(t.Context(), l))
	})
	t.Run("a fence grows although the clock was set back", func(t *testing.T) {
		ahead := time.Now().Add(240 * time.Hour).UnixMicro()
		require.NoError(t, command(t, url, "ZADD", keys[0], fmt.Sprint(-ahead), "#").Error())
		c := claim("k")
		c.Lease = 0 // so that every second claim takes over
		for last, n := uint64(ahead), 0; n < 8; n++ {
			g, err := st.Reserve(t.Context(), c)
			require.NoError(t, err)
			// The count alone, since what is rounded to 53 bits on its way has to grow too.
			require.Greater(t, g.Lease.Fence/1000, last)
			last = g.Lease.Fence / 1000
			if g.Verdict == store.TakenOver {
				require.NoError(t, st.Release(t.Context(), g.Lease))
			}
		}
	})
	t.Run("a fence grows over take-over although the count was lost too", func(t *testing.T) {
		require.NoError(t, command(t, url, "ZADD", keys[0], fmt.Sprint(-time.Now().Add(480*time.Hour).UnixMicro()), "#").Error())
		c := claim("k")
		c.Lease = 0
		_, err := st.Reserve(t.Context(), c)
		require.NoError(t, err)
		last := mustFind(t, st, c.ID).Fence
		require.NoError(t, command(t, url, "DEL", keys[0]).Error())
		g, err := st.Reserve(t.Context(), c)
		require.NoError(t, err)
		require.Equal(t, store.TakenOver, g.Verdict)
		require.Greater(t, g.Lease.Fence, last)
	})
}

// indexed counts what the indexes hold of records.
func indexed(t *testing.T, url, p string) (sum int64) {
	t.Helper()
	for _, k := range keysOf(t, url, p+":*:pending") {
		n, err := command(t, url, "ZCOUNT", k, "0", "+inf").AsInt64() // the fence's count is negative
		require.NoError(t, err)
		sum += n
	}
	return sum
}

// brief makes a record that expires while it is pending, and returns when it has. Its place in the index stays.
func brief(t *testing.T, st *redisstore.Store, key string) {
	t.Helper()
	c := claim(key)
	c.Lease, c.Retention = 0, time.Millisecond
	acquire(t, st, c)
	until(t, "the record expires", func() bool {
		_, err := st.Find(t.Context(), c.ID)
		return errors.Is(err, store.ErrNotFound)
	})
}

// An ID that was reserved anew stands in the index once more, beside the place that its expired record has left.
func TestReservedAnewIsListedOnce(t *testing.T) {
	url := sharedURL(t)
	p := prefix(t, url)
	st := open(t, url, redisstore.WithPrefix(p))
	// A claim in eight tidies up, so that one of some tries must leave the expired record's place.
	for try := 0; ; try++ {
		require.Less(t, try, 100, "each claim tidied up")
		expired, older := fmt.Sprint("expired ", try), fmt.Sprint("older ", try)
		brief(t, st, expired)
		first := acquire(t, st, claim(older))
		again := acquire(t, st, claim(expired))
		left := indexed(t, url, p) == 3
		var listed []store.Record
		for r, err := range st.Pending(t.Context(), "") {
			require.NoError(t, err)
			listed = append(listed, r)
		}
		require.Len(t, listed, 2, "each record once")
		require.Equal(t, first.Lease, listed[0].Lease(), "by the creation of the record, not of the one that has expired")
		require.Equal(t, again.Lease, listed[1].Lease())
		require.NoError(t, st.Release(t.Context(), first.Lease))
		require.NoError(t, st.Release(t.Context(), again.Lease))
		if left {
			return
		}
		_, err := st.Purge(t.Context(), 1000)
		require.NoError(t, err)
	}
}

// What expires leaves the index with a later claim in its shard, or with a Purge: it does not pile up.
func TestIndexIsTidied(t *testing.T) {
	url := sharedURL(t)
	p := prefix(t, url)
	st := open(t, url, redisstore.WithPrefix(p))
	t.Run("by a later claim", func(t *testing.T) {
		brief(t, st, "k")
		require.EqualValues(t, 1, indexed(t, url, p))
		// One claim in eight does it, so that some thousands can't all pass it by.
		for range 5000 {
			require.NoError(t, st.Release(t.Context(), acquire(t, st, claim("k")).Lease))
			if indexed(t, url, p) == 0 {
				return
			}
		}
		t.Fatal("what has expired is still in the index")
	})
	t.Run("by Purge, in batches", func(t *testing.T) {
		for i := range 7 {
			brief(t, st, fmt.Sprint(i))
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
		require.Zero(t, indexed(t, url, p))
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
		require.Zero(t, indexed(t, url, p))
	})
}
