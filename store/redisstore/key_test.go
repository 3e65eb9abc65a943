package redisstore

import (
	"strings"
	"testing"
	"time"

	"github.com/redo-go/redo/store"
	"github.com/stretchr/testify/require"
)

func TestLayout(t *testing.T) {
	l := newLayout("redo")
	keys, text := l.record(store.ID{Scope: "scope", Key: "key"})
	require.Equal(t, "5:scopekey", text)
	tag := keys[0][:len("redo:{00}:")]
	require.Equal(t, [2]string{tag + "r:5:scopekey", tag + "pending"}, keys)

	t.Run("an ID's own braces choose no slot", func(t *testing.T) {
		for _, key := range []string{"{a}", "}{a}", "{}", "}", "{"} {
			keys, _ := l.record(store.ID{Scope: key, Key: key})
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
			keys, _ := l.record(store.ID{Key: strings.Repeat("k", 1+i%7) + time.Duration(i).String()})
			shards[keys[1]] = true
		}
		require.Len(t, shards, shardCount)
	})
}

func FuzzID(f *testing.F) {
	for _, s := range []string{"5:scopekey", "0:k", "1:ak", "", ":", "01:ak", "+1:ak", "-1:k", "9:k", "1:", "1:a", "99999999999999999999:k", "0:{k}"} {
		f.Add(s)
	}
	l := newLayout("redo")
	f.Fuzz(func(t *testing.T, text string) {
		id, err := parseID(text)
		if err != nil {
			return
		}
		if _, got := l.record(id); got != text {
			t.Errorf("%q is read as %v, which is written as %q", text, id, got)
		}
	})
}
