package redisstore_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/redisstore"
	"github.com/stretchr/testify/require"
)

// listed returns the keys of a list, and those of the records in it that can't be read.
func listed(t *testing.T, st *redisstore.Store) (keys, unread []string) {
	t.Helper()
	for r, err := range st.Pending(t.Context(), "") {
		if err == nil {
			keys = append(keys, r.ID.Key)
			continue
		}
		require.ErrorIs(t, err, redisstore.ErrFormat)
		require.ErrorIs(t, err, store.ErrUnavailable)
		require.Equal(t, store.Record{ID: r.ID}, r)
		unread = append(unread, r.ID.Key)
	}
	return keys, unread
}

// With any field damaged, no script judges by it, and none writes it back.
func TestDamagedField(t *testing.T) {
	url := sharedURL(t)
	p := prefix(t, url)
	st := open(t, url, redisstore.WithPrefix(p))
	c := claim("k")
	c.Lease, c.Meta, c.Owner = 0, []byte("meta"), "owner" // the next claim takes it over if it can be read
	l := acquire(t, st, c).Lease
	key := recordKey(t, url, p)
	sound, err := command(t, url, "GET", key).ToString()
	require.NoError(t, err)
	with := func(at int, text string) string { return sound[:at] + text + sound[at+len(text):] }
	for what, value := range map[string]string{
		"format":            with(0, "rado"),
		"state":             with(5, "x"),
		"mark":              with(6, "x"),
		"mark of a result":  with(6, "+"),
		"fence":             with(7, "x"),
		"too large fence":   with(7, "9999999999999999999"),
		"lease":             with(26, "x"),
		"lease in base 16":  with(26, "0x000000000000001"),
		"creation":          with(43, "x"),
		"expiry":            with(59, "-"),
		"meta's length":     with(105, "000000x"),
		"long meta":         with(105, "9999999"),
		"negative meta":     with(105, "-000004"),
		"short meta":        with(105, "0000003"),
		"owner's length":    with(112, "0x"),
		"long owner":        with(112, "99"),
		"cut short":         sound[:100],
		"without its meta":  sound[:len(sound)-4],
		"without its owner": sound[:114],
		"empty":             "",
	} {
		t.Run(what, func(t *testing.T) {
			require.NoError(t, command(t, url, "SET", key, value).Error())
			_, err := st.Find(t.Context(), c.ID)
			require.ErrorIs(t, err, store.ErrDamaged)
			_, err = st.Reserve(t.Context(), c)
			require.ErrorIs(t, err, store.ErrDamaged)
			require.ErrorContains(t, err, c.ID.String())
			if owned := value[:min(26, len(value))] == sound[:26]; owned {
				require.ErrorIs(t, st.Extend(t.Context(), l, time.Hour, []byte("meta")), store.ErrDamaged)
			}
			_, unread := listed(t, st)
			require.Equal(t, []string{"k"}, unread)
			after, err := command(t, url, "GET", key).ToString()
			require.NoError(t, err)
			require.Equal(t, value, after, "nothing was changed")
			require.NoError(t, st.Drop(t.Context(), c.ID), "a script finds the damage too")
			acquire(t, st, c)
		})
	}
	t.Run("none", func(t *testing.T) {
		require.NoError(t, command(t, url, "SET", key, sound).Error())
		g, err := st.Reserve(t.Context(), c)
		require.NoError(t, err)
		require.Equal(t, store.TakenOver, g.Verdict)
		require.Equal(t, "meta", string(g.Record.Meta))
		require.ErrorIs(t, st.Drop(t.Context(), c.ID), store.ErrInvalid)
	})
}

func TestDrop(t *testing.T) {
	url := sharedURL(t)
	for what, foreign := range map[string][]string{
		"a string": {"SET", "", "value"},
		"a list":   {"RPUSH", "", "value"},
		"a hash":   {"HSET", "", "s", "p"},
	} {
		t.Run(what+" in a record's place is damage", func(t *testing.T) {
			p := prefix(t, url)
			st := open(t, url, redisstore.WithPrefix(p))
			acquire(t, st, claim("k"))
			key := recordKey(t, url, p)
			require.NoError(t, command(t, url, "DEL", key).Error())
			foreign[1] = key
			require.NoError(t, command(t, url, foreign...).Error())
			require.NoError(t, st.Drop(t.Context(), claim("k").ID))
			require.Zero(t, indexed(t, url, p))
			acquire(t, st, claim("k"))
			require.EqualValues(t, 1, indexed(t, url, p))
		})
	}
	t.Run("a record of another version is listed and stays", func(t *testing.T) {
		p := prefix(t, url)
		st := open(t, url, redisstore.WithPrefix(p))
		acquire(t, st, claim("k"))
		value := "redo3" + strings.Repeat("x", 200)
		require.NoError(t, command(t, url, "SET", recordKey(t, url, p), value).Error())
		_, unread := listed(t, st)
		require.Equal(t, []string{"k"}, unread)
		err := st.Drop(t.Context(), claim("k").ID)
		require.ErrorIs(t, err, redisstore.ErrFormat)
		require.NotErrorIs(t, err, store.ErrDamaged)
		after, err := command(t, url, "GET", recordKey(t, url, p)).ToString()
		require.NoError(t, err)
		require.Equal(t, value, after)
	})
	t.Run("a member of the index that is no ID comes last and hides nothing", func(t *testing.T) {
		p := prefix(t, url)
		st := open(t, url, redisstore.WithPrefix(p))
		for i := range 3 {
			acquire(t, st, claim(fmt.Sprint(i)))
		}
		other := p + ":{" + redisstore.ShardTag(st, claim("1").ID) + "}:r:5:scope1" // it is listed from its own index
		require.NoError(t, command(t, url, "ZADD", p+":{"+otherTag(st, "1")+"}:pending", "+inf", "0000 no ID",
			"+inf", other).Error())
		keys, unread := listed(t, st)
		require.Equal(t, []string{"0", "1", "2"}, keys)
		require.Equal(t, []string{""}, unread)
	})
	t.Run("a closed store drops nothing", func(t *testing.T) {
		st := open(t, url, redisstore.WithPrefix(prefix(t, url)))
		require.NoError(t, st.Close())
		require.ErrorIs(t, st.Drop(t.Context(), claim("k").ID), store.ErrUnavailable)
	})
}
