package redisstore

import (
	"strings"
	"testing"
	"time"

	"github.com/redo-go/redo/store"
	"github.com/stretchr/testify/require"
)

func TestLayout(t *testing.T) {
	l := newLayout("redo", [secretSize]byte{1})
	keys := l.record(store.ID{Scope: "scope", Key: "key"})
	tag := keys[0][:len("redo:{00}:")]
	require.Equal(t, [2]string{tag + "r:5:scopekey", tag + "pending"}, keys)
	require.Equal(t, "redo:{1a}:", tag, "the first byte of the SHA-256 of the secret and 5:scopekey")
	require.Equal(t, "redo:{85}:pending", l.record(store.ID{Scope: "twelve bytes", Key: "key"})[1])

	t.Run("an ID's own braces choose no slot", func(t *testing.T) {
		for _, key := range []string{"{a}", "}{a}", "{}", "}", "{"} {
			keys := l.record(store.ID{Scope: key, Key: key})
			first, rest, _ := strings.Cut(keys[0], "{")
			tag, _, _ := strings.Cut(rest, "}")
			require.Equal(t, "redo:", first)
			require.Len(t, tag, 2)
			require.Equal(t, "redo:{"+tag+"}:pending", keys[1])
		}
	})
	t.Run("IDs reach every shard", func(t *testing.T) {
		shards := map[string]bool{}
		for i := range 64 * shardCount {
			shards[l.record(store.ID{Key: strings.Repeat("k", 1+i%7) + time.Duration(i).String()})[1]] = true
		}
		require.Len(t, shards, shardCount)
	})
	t.Run("IDs that share a shard under one secret are spread under another", func(t *testing.T) {
		other, shards := newLayout("redo", [secretSize]byte{2}), map[string]bool{}
		for i, found := 0, 0; found < 64; i++ {
			id := store.ID{Scope: strings.Repeat("long", 100), Key: time.Duration(i).String()}
			if l.record(id)[1] == keys[1] {
				shards[other.record(id)[1]] = true
				found++
			}
		}
		require.Greater(t, len(shards), 32)
	})
	t.Run("an ID is read back", func(t *testing.T) {
		for _, id := range []store.ID{{Scope: "scope", Key: "key"}, {Key: "key"}, {Scope: "scope", Key: "}:r:1:"}} {
			got, err := recordID(l.record(id)[0])
			require.NoError(t, err)
			require.Equal(t, id, got)
		}
	})
	t.Run("a scope and a key that together are the same are two IDs", func(t *testing.T) {
		require.NotEqual(t, l.record(store.ID{Scope: "ab", Key: "c"}), l.record(store.ID{Scope: "a", Key: "bc"}))
	})
}

func FuzzID(f *testing.F) {
	for _, s := range []string{
		"5:scopekey", "0:k", "1:ak", "", ":", "01:ak", "+1:ak", "-1:k", "9:k", "1:", "1:a", "99999999999999999999:k",
		"0:{k}",
	} {
		f.Add(s)
	}
	l := newLayout("redo", [secretSize]byte{})
	f.Fuzz(func(t *testing.T, text string) {
		id, err := recordID(l.shards[7].records + text)
		if err != nil {
			return
		}
		if _, got, _ := strings.Cut(l.record(id)[0], ":r:"); got != text {
			t.Errorf("%q is read as %v, which is written as %q", text, id, got)
		}
	})
}
