package redisstore_test

import (
	"strings"
	"testing"
	"time"

	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/redisstore"
	"github.com/stretchr/testify/require"
)

// recordKey is the key of the only record under a prefix.
func recordKey(t *testing.T, url, p string) string {
	t.Helper()
	keys := keysOf(t, url, p+":{*}:r:*")
	require.Len(t, keys, 1)
	return keys[0]
}

func TestForeignKey(t *testing.T) {
	url := sharedURL(t)
	for what, foreign := range map[string][]string{
		"a string":                         {"SET", "", "value"},
		"a list":                           {"RPUSH", "", "value"},
		"a hash":                           {"HSET", "", "s", "p"},
		"a record of a newer format":       {"SET", "", "redo3" + strings.Repeat("x", 200)},
		"a short record of a newer format": {"SET", "", "redo9"},
		"half of a record":                 {"SET", "", "redo2p"},
	} {
		t.Run(what+" in a record's place is an error and stays", func(t *testing.T) {
			p := prefix(t, url)
			st := open(t, url, redisstore.WithPrefix(p))
			c := claim("k")
			l := acquire(t, st, c).Lease
			key := recordKey(t, url, p)
			require.NoError(t, command(t, url, "DEL", key).Error())
			foreign[1] = key
			require.NoError(t, command(t, url, foreign...).Error())
			dump, err := command(t, url, "DUMP", key).ToString()
			require.NoError(t, err)

			_, reserve := st.Reserve(t.Context(), c)
			_, find := st.Find(t.Context(), c.ID)
			var pending error
			for _, err := range st.Pending(t.Context(), "") {
				pending = err
			}
			for call, err := range map[string]error{
				"Reserve": reserve, "Find": find, "Pending": pending,
				"Extend":   st.Extend(t.Context(), l, time.Hour, []byte("meta")),
				"Complete": st.Complete(t.Context(), l, store.Outcome{}),
				"Release":  st.Release(t.Context(), l),
				"Forget":   st.Forget(t.Context(), l),
				"Wait":     st.Wait(t.Context(), l.ID, l.Fence),
			} {
				require.ErrorIs(t, err, redisstore.ErrFormat, call)
				require.ErrorIs(t, err, store.ErrUnavailable, call)
			}
			after, err := command(t, url, "DUMP", key).ToString()
			require.NoError(t, err)
			require.Equal(t, dump, after)
		})
	}
	t.Run("a foreign index lets no claim in, settles none and leaves no half of one", func(t *testing.T) {
		p := prefix(t, url)
		st := open(t, url, redisstore.WithPrefix(p))
		c := claim("k")
		l := acquire(t, st, c).Lease
		index := indexKey(st, p, c.ID)
		require.NoError(t, command(t, url, "DEL", index).Error())
		require.NoError(t, command(t, url, "RPUSH", index, "value").Error())
		require.ErrorIs(t, st.Complete(t.Context(), l, store.Outcome{}), redisstore.ErrFormat)
		require.Equal(t, store.StatePending, mustFind(t, st, c.ID).State)
		require.NoError(t, command(t, url, "DEL", recordKey(t, url, p)).Error())
		_, err := st.Reserve(t.Context(), c)
		require.ErrorIs(t, err, redisstore.ErrFormat)
		_, err = st.Find(t.Context(), c.ID)
		require.ErrorIs(t, err, redisstore.ErrFormat, "the record may be in another shard")
		require.Empty(t, keysOf(t, url, p+":{*}:r:*"))
	})
}

// A rolling deployment meets records of the newer release. A caller can try again later. Drop refuses them.
func TestRecordOfANewerFormat(t *testing.T) {
	url := sharedURL(t)
	p := prefix(t, url)
	st := open(t, url, redisstore.WithPrefix(p))
	c := claim("k")
	acquire(t, st, c)
	key := recordKey(t, url, p)
	for value, version := range map[string]string{
		"redo3" + strings.Repeat("x", 200): "format 3,",
		"redo9":                            "format 9,",
	} {
		t.Run(version, func(t *testing.T) {
			require.NoError(t, command(t, url, "SET", key, value).Error())
			_, reserve := st.Reserve(t.Context(), c)
			_, find := st.Find(t.Context(), c.ID)
			for call, err := range map[string]error{
				"Reserve": reserve, "Find": find, "Drop": st.Drop(t.Context(), c.ID),
			} {
				require.ErrorIs(t, err, store.ErrUnavailable, call)
				require.ErrorIs(t, err, redisstore.ErrFormat, call)
				require.NotErrorIs(t, err, store.ErrDamaged, call)
				require.NotErrorIs(t, err, store.ErrNotFound, call)
				require.ErrorContains(t, err, version, call)
			}
		})
	}
	t.Run("a text without a version is damage", func(t *testing.T) {
		require.NoError(t, command(t, url, "SET", key, "redo and undo").Error())
		_, err := st.Find(t.Context(), c.ID)
		require.ErrorIs(t, err, store.ErrDamaged)
	})
}

func TestTimeToLive(t *testing.T) {
	url := sharedURL(t)
	left := func(t *testing.T, key string) int64 {
		t.Helper()
		n, err := command(t, url, "PEXPIRETIME", key).AsInt64()
		require.NoError(t, err)
		return n
	}
	for _, c := range []struct {
		rule             string
		lease, retention time.Duration
	}{
		{"a record lives as long as its retention", time.Minute, time.Hour},
		{"a record lives as long as its lease", time.Hour, time.Minute},
		{"an endless retention has no time to live", time.Hour, store.Forever},
		{"a retention beyond the year 2286 is endless", time.Hour, store.Forever - 1},
	} {
		t.Run(c.rule, func(t *testing.T) {
			p := prefix(t, url)
			st := open(t, url, redisstore.WithPrefix(p))
			cl := claim("k")
			cl.Lease, cl.Retention = c.lease, c.retention
			g := acquire(t, st, cl)
			key := recordKey(t, url, p)
			want := func() int64 {
				r, err := st.Find(t.Context(), cl.ID)
				require.NoError(t, err)
				if r.ExpiresAt.IsZero() {
					return -1
				}
				return r.ExpiresAt.UnixMilli() - 1 // the engine keeps a key through its last millisecond
			}
			require.Equal(t, want(), left(t, key))
			require.NoError(t, st.Extend(t.Context(), g.Lease, 3*time.Hour, nil))
			require.Equal(t, want(), left(t, key))
			require.NoError(t, st.Complete(t.Context(), g.Lease, store.Outcome{Retention: store.Forever}))
			require.EqualValues(t, -1, left(t, key))
		})
	}
}

func TestResultTooLarge(t *testing.T) {
	for largest, o := range map[int]redisstore.Option{8: redisstore.WithMaxResult(8), 16 << 20: nil} {
		st := open(t, sharedURL(t), redisstore.WithPrefix(prefix(t, sharedURL(t))), o)
		l := acquire(t, st, claim("k")).Lease
		require.ErrorIs(t, st.Complete(t.Context(), l, store.Outcome{Result: make([]byte, largest+1)}), store.ErrInvalid)
		require.NoError(t, st.Complete(t.Context(), l, store.Outcome{Result: make([]byte, largest)}))
	}
}
