package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
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
	index := indexKey(st, p, claim("k").ID)

	t.Run("a fence grows although the count was lost", func(t *testing.T) {
		require.NoError(t, command(t, url, "DEL", index).Error())
		l := acquire(t, st, claim("k")).Lease
		require.Greater(t, l.Fence, first.Fence)
		require.NoError(t, st.Release(t.Context(), l))
	})
	t.Run("a fence grows although the clock was set back", func(t *testing.T) {
		ahead := time.Now().Add(240 * time.Hour).UnixMicro()
		require.NoError(t, command(t, url, "ZADD", index, fmt.Sprint(ahead), "#").Error())
		c := claim("k")
		c.Lease = 0 // so that every second claim takes over
		for last, n := uint64(ahead), 0; n < 8; n++ {
			g, err := st.Reserve(t.Context(), c)
			require.NoError(t, err)
			// The count alone, since a number that is rounded to 53 bits on its way must grow too.
			require.Greater(t, g.Lease.Fence/1000, last)
			last = g.Lease.Fence / 1000
			if g.Verdict == store.TakenOver {
				require.NoError(t, st.Release(t.Context(), g.Lease))
			}
		}
	})
	t.Run("a fence grows over take-over although the count was lost too", func(t *testing.T) {
		require.NoError(t,
			command(t, url, "ZADD", index, fmt.Sprint(time.Now().Add(480*time.Hour).UnixMicro()), "#").Error())
		c := claim("k")
		c.Lease = 0
		_, err := st.Reserve(t.Context(), c)
		require.NoError(t, err)
		last := mustFind(t, st, c.ID).Fence
		require.NoError(t, command(t, url, "DEL", index).Error())
		g, err := st.Reserve(t.Context(), c)
		require.NoError(t, err)
		require.Equal(t, store.TakenOver, g.Verdict)
		require.Greater(t, g.Lease.Fence, last)
	})
}

// indexKey returns the key of the index that an ID's record is in.
func indexKey(st *redisstore.Store, p string, id store.ID) string {
	return p + ":{" + redisstore.ShardTag(st, id) + "}:pending"
}

// indexed counts the records in the indexes.
func indexed(t *testing.T, url, p string) (sum int64) {
	t.Helper()
	c := client(t, url)
	for i := range 256 {
		members, err := c.Do(t.Context(),
			c.B().Zrange().Key(fmt.Sprintf("%s:{%02x}:pending", p, i)).Min("0").Max("-1").Build()).AsStrSlice()
		require.NoError(t, err)
		for _, m := range members {
			if strings.HasPrefix(m, p) {
				sum++
			}
		}
	}
	return sum
}

// brief makes a record that expires while it is pending, and waits until it has. Its place in the index stays.
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

// A record that was reserved anew has the place in the index that its expired predecessor left.
func TestReservedAnewIsListedOnce(t *testing.T) {
	url := sharedURL(t)
	p := prefix(t, url)
	st := open(t, url, redisstore.WithPrefix(p))
	brief(t, st, "expired")
	first := acquire(t, st, claim("older"))
	again := acquire(t, st, claim("expired"))
	var listed []store.Record
	for r, err := range st.Pending(t.Context(), "") {
		require.NoError(t, err)
		listed = append(listed, r)
	}
	require.Len(t, listed, 2, "each record once")
	require.Equal(t, first.Lease, listed[0].Lease(), "by the creation of the record, not of the expired one")
	require.Equal(t, again.Lease, listed[1].Lease())
	require.EqualValues(t, 2, indexed(t, url, p))
}

// Pending reads the records in pages. A loop must not take the end of the store for the end of the list.
func TestAListEndsWithAnErrorIfTheStoreIsClosedMeanwhile(t *testing.T) {
	url := sharedURL(t)
	// Its client stays open.
	st, err := redisstore.New(t.Context(), client(t, url), redisstore.WithPrefix(prefix(t, url)))
	require.NoError(t, err)
	const more = 100 // than a page has
	for i := range more {
		acquire(t, st, claim(fmt.Sprint(i)))
	}
	listed, last := 0, error(nil)
	for _, err := range st.Pending(t.Context(), "") {
		if last = err; err == nil {
			listed++
		}
		require.NoError(t, st.Close())
	}
	require.ErrorIs(t, last, store.ErrUnavailable)
	require.Less(t, listed, more)
}

// A list that is cut short must not look like a whole one, wherever in its pages the context ends.
func TestAListEndsWithTheErrorOfItsContext(t *testing.T) {
	url := sharedURL(t)
	st := open(t, url, redisstore.WithPrefix(prefix(t, url)))
	const page, more = 64, 100
	for i := range more {
		acquire(t, st, claim(fmt.Sprint(i)))
	}
	for _, end := range []int{1, page - 1, page, page + 1, more} {
		ctx, cancel := context.WithCancel(t.Context())
		listed, last := 0, error(nil)
		for _, err := range st.Pending(ctx, "") {
			if last = err; err == nil {
				listed++
			}
			if listed == end {
				cancel()
			}
		}
		cancel()
		require.Equal(t, end, listed)
		if end < more {
			require.ErrorIs(t, last, context.Canceled, "after %d records", end)
		} else {
			require.NoError(t, last, "the list is whole")
		}
	}
}

// A loop must not take a list without the records of one page for a whole one.
func TestAListEndsAtAReadThatFails(t *testing.T) {
	st, c := swapping(t, sharedURL(t))
	const more = 100 // than a page has
	for i := range more {
		acquire(t, st, claim(fmt.Sprint(i)))
	}
	for _, command := range []string{"ZRANGE", "GETRANGE", "EVALSHA"} {
		c.swap = by(map[string][]string{command + " 1": late})
		var errs []error
		for _, err := range st.Pending(t.Context(), "") {
			errs = append(errs, err)
		}
		require.Len(t, errs, 1, command)
		require.ErrorIs(t, errs[0], store.ErrUnavailable, command)
	}
}

// Records of one creation are listed by their keys.
func TestAListOfOneCreation(t *testing.T) {
	url := sharedURL(t)
	p := prefix(t, url)
	st := open(t, url, redisstore.WithPrefix(p))
	var keys []string
	for i := range 3 {
		keys = append(keys, keyIn(st, "00", i))
	}
	slices.Sort(keys)
	for i, at := range []int{1, 2, 0} { // the index has them by their expiry
		c := claim(keys[at])
		c.Retention += time.Duration(i) * time.Hour
		acquire(t, st, c)
		require.NoError(t, command(t, url, "SETRANGE", p+":{00}:r:5:scope"+keys[at], "43", "1795000000000001").Error())
	}
	got, _ := listed(t, st)
	require.Equal(t, keys, got)
}

// The later pages are read when the loop has come to them.
func TestAListLeavesOutWhatHasChangedSinceItBegan(t *testing.T) {
	url := sharedURL(t)
	st := open(t, url, redisstore.WithPrefix(prefix(t, url)))
	const more = 100 // than a page has
	for i := range more {
		acquire(t, st, claim(fmt.Sprint(i)))
	}
	settled, anew := acquire(t, st, claim("settled")).Lease, acquire(t, st, claim("anew")).Lease
	var listed []string
	for r, err := range st.Pending(t.Context(), "") {
		require.NoError(t, err)
		if len(listed) == 0 {
			require.NoError(t, st.Complete(t.Context(), settled, store.Outcome{}))
			require.NoError(t, st.Release(t.Context(), anew))
			acquire(t, st, claim("anew"))
		}
		listed = append(listed, r.ID.Key)
	}
	require.Len(t, listed, more)
	require.Equal(t, fmt.Sprint(more-1), listed[more-1])
}

// Expired records leave the index with later creations in their shard, or with a Purge.
func TestIndexIsTidied(t *testing.T) {
	url := sharedURL(t)
	p := prefix(t, url)
	st := open(t, url, redisstore.WithPrefix(p))
	t.Run("by later creations, at most sixteen at a time", func(t *testing.T) {
		index := indexKey(st, p, claim("k").ID)
		for i := range 40 {
			member := fmt.Sprintf("%s%d", strings.Replace(index, "pending", "r:5:scope", 1), i)
			require.NoError(t, command(t, url, "ZADD", index, "1", member).Error())
		}
		left := int64(40)
		for range 5000 { // one creation in eight removes entries
			require.NoError(t, st.Release(t.Context(), acquire(t, st, claim("k")).Lease))
			now, err := command(t, url, "ZCOUNT", index, "1", "1").AsInt64()
			require.NoError(t, err)
			require.LessOrEqual(t, left-now, int64(16))
			if left = now; left == 0 {
				return
			}
		}
		t.Fatal("expired records are still in the index")
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
		// A later claim in the same shard may have removed an entry.
		require.LessOrEqual(t, len(got), 3)
		require.Zero(t, indexed(t, url, p))
	})
	t.Run("by Purge, no more than its limit of two shards", func(t *testing.T) {
		for _, tag := range []string{"00", "01"} {
			for i := range 3 {
				require.NoError(t, command(t, url, "ZADD", p+":{"+tag+"}:pending", "1", fmt.Sprint(p, i)).Error())
			}
		}
		for _, want := range []int{4, 2, 0} {
			n, err := st.Purge(t.Context(), 4)
			require.NoError(t, err)
			require.Equal(t, want, n)
		}
	})
	t.Run("by Purge with the largest limit", func(t *testing.T) {
		brief(t, st, "largest")
		_, err := st.Purge(t.Context(), math.MaxInt)
		require.NoError(t, err)
		require.Zero(t, indexed(t, url, p))
	})
	t.Run("a settled or released record is in no index", func(t *testing.T) {
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
