package redisstore_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/redisstore"
	"github.com/stretchr/testify/require"
)

// together requires that the stores find each other's records.
func together(t *testing.T, a, b *redisstore.Store, name string) {
	t.Helper()
	for i := range 16 {
		c := claim(fmt.Sprint(name, " ", i))
		l := acquire(t, a, c).Lease
		g, err := b.Reserve(t.Context(), c)
		require.NoError(t, err)
		require.Equal(t, store.InFlight, g.Verdict)
		require.NoError(t, b.Complete(t.Context(), l, store.Outcome{}))
	}
}

func TestLayoutIsShared(t *testing.T) {
	url := sharedURL(t)
	p := prefix(t, url)
	var stores [8]*redisstore.Store
	var all sync.WaitGroup
	for i := range stores {
		all.Go(func() { stores[i], _ = redisstore.Open(t.Context(), url, redisstore.WithPrefix(p)) })
	}
	all.Wait()
	for i, st := range stores {
		require.NotNil(t, st)
		defer st.Close()
		together(t, stores[0], st, fmt.Sprint("opened together ", i))
	}
	other := open(t, url, redisstore.WithPrefix(prefix(t, url)))
	same := 0
	for i := range 256 {
		if id := claim(fmt.Sprint(i)).ID; redisstore.ShardTag(other, id) == redisstore.ShardTag(stores[0], id) {
			same++
		}
	}
	require.Less(t, same, 64, "another prefix has another secret")
}

// After the layout is lost, a running store and a new one must not look for one ID in two shards.
func TestLayoutIsLost(t *testing.T) {
	t.Run("with all data", func(t *testing.T) {
		e := privateEngine(t)
		running := open(t, e.url())
		acquire(t, running, claim("before"))
		e.must(t, "FLUSHALL")
		later := open(t, e.url())
		together(t, running, later, "reserved by the running store")
		together(t, later, running, "reserved by the later store")
	})
	t.Run("with all data, and the clock was set back since", func(t *testing.T) {
		e := privateEngine(t)
		running := open(t, e.url())
		e.must(t, "FLUSHALL")
		later := open(t, e.url())
		for i := range 256 {
			ahead := fmt.Sprint(time.Now().Add(time.Hour).UnixMicro())
			e.must(t, "ZADD", fmt.Sprintf("redo:{%02x}:pending", i), ahead, "#")
		}
		together(t, later, running, "reserved by the later store")
	})
	t.Run("with all data, and the running store only reads", func(t *testing.T) {
		for name, read := range map[string]func(*redisstore.Store, store.ID) error{
			"Find": func(st *redisstore.Store, id store.ID) error {
				_, err := st.Find(t.Context(), id)
				return err
			},
			"Pending": func(st *redisstore.Store, id store.ID) error {
				for r, err := range st.Pending(t.Context(), "") {
					if err != nil || r.ID == id {
						return err
					}
				}
				return store.ErrNotFound
			},
			"Drop": func(st *redisstore.Store, id store.ID) error {
				err := st.Drop(t.Context(), id)
				if errors.Is(err, store.ErrInvalid) { // it is sound
					return nil
				}
				return err
			},
		} {
			e := privateEngine(t)
			running := open(t, e.url())
			e.must(t, "FLUSHALL")
			c := claim("k")
			acquire(t, open(t, e.url()), c)
			require.NoError(t, read(running, c.ID), name)
		}
	})
	t.Run("with all data, and the running store comes first", func(t *testing.T) {
		e := privateEngine(t)
		running, other := open(t, e.url()), open(t, e.url())
		e.must(t, "FLUSHALL")
		together(t, running, other, "k")
		together(t, other, open(t, e.url()), "later")
	})
	t.Run("alone, and the shards keep its secret", func(t *testing.T) {
		e := privateEngine(t)
		running := open(t, e.url())
		l := acquire(t, running, claim("before")).Lease
		e.must(t, "DEL", "redo:layout")
		later := open(t, e.url())
		require.Equal(t, l.Fence, mustFind(t, later, l.ID).Fence)
		together(t, later, running, "k")
	})
	t.Run("and replaced by another, which the shards do not accept", func(t *testing.T) {
		e := privateEngine(t)
		open(t, e.url())
		e.must(t, "SET", "redo:layout", "redo2:0123456789abcdef")
		later := open(t, e.url())
		_, err := later.Reserve(t.Context(), claim("k"))
		require.ErrorIs(t, err, redisstore.ErrFormat)
		require.ErrorIs(t, err, store.ErrUnavailable)
		_, err = later.Find(t.Context(), claim("k").ID)
		require.ErrorIs(t, err, redisstore.ErrFormat, "the record may be in another shard")
		members, err := command(t, e.url(), "ZCARD", indexKey(later, "redo", claim("k").ID)).AsInt64()
		require.NoError(t, err)
		require.EqualValues(t, 1, members, "only the mark is there: nothing was written")
	})
	t.Run("for some shards, which get the mark again", func(t *testing.T) {
		e := privateEngine(t)
		st := open(t, e.url())
		e.must(t, "DEL", indexKey(st, "redo", claim("k").ID))
		acquire(t, st, claim("k"))
		require.EqualValues(t, 1, indexed(t, e.url(), "redo"))
	})
}

func TestLayoutOfAnotherFormat(t *testing.T) {
	for rule, c := range map[string]struct {
		foreign []string
		text    string
	}{
		"a newer layout": {[]string{"SET", "redo:layout", "redo3:anything"}, "format 3,"},
		"records of format 1": {
			[]string{"ZADD", "redo:{07}:pending", "-1795000000000000", "#"}, "format 1,",
		},
		"a layout that was overwritten": {[]string{"SET", "redo:layout", "value"}, "no layout"},
		"a secret that is too short":    {[]string{"SET", "redo:layout", "redo2:01"}, "no layout"},
		"a secret that is too long":     {[]string{"SET", "redo:layout", "redo2:0123456789abcdef01"}, "no layout"},
		"a secret of other digits":      {[]string{"SET", "redo:layout", "redo2:0123456789abcdefg"}, "no layout"},
		"a secret of another value":     {[]string{"SET", "redo:layout", "value:0123456789abcdef"}, "no layout"},
		"a key that holds no string":    {[]string{"RPUSH", "redo:layout", "value"}, "WRONGTYPE"},
		"an index that holds no index":  {[]string{"SET", "redo:{07}:pending", "value"}, "WRONGTYPE"},
		"an index with another mark": {
			[]string{"ZADD", "redo:{07}:pending", "-inf", "=0123", "-inf", "=4567"}, "does not belong",
		},
		"an index with a mark of no secret": {[]string{"ZADD", "redo:{07}:pending", "-inf", "=0123"}, "no layout"},
	} {
		t.Run(rule+" is named", func(t *testing.T) {
			e := privateEngine(t)
			e.must(t, c.foreign...)
			_, err := redisstore.Open(t.Context(), e.url())
			require.ErrorIs(t, err, redisstore.ErrFormat)
			require.ErrorIs(t, err, store.ErrUnavailable)
			require.ErrorContains(t, err, c.text)
		})
	}
	t.Run("a layout that is replaced later is seen by Check", func(t *testing.T) {
		e := privateEngine(t)
		st := open(t, e.url())
		require.NoError(t, st.Check(t.Context()))
		e.must(t, "SET", "redo:layout", "redo3:anything")
		require.ErrorIs(t, st.Check(t.Context()), redisstore.ErrFormat)
	})
}
