package redisstore_test

import (
	"context"
	"errors"
	"github.com/redo-go/redo/internal/freeport"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/redisstore"
	"github.com/stretchr/testify/require"
)

func TestEviction(t *testing.T) {
	for _, policy := range []string{"allkeys-lru", "allkeys-random", "volatile-lru", "volatile-ttl"} {
		t.Run(policy+" is refused unless allowed", func(t *testing.T) {
			e := privateEngine(t, "--maxmemory-policy", policy)
			_, err := redisstore.Open(t.Context(), e.url())
			require.ErrorIs(t, err, redisstore.ErrEviction)
			require.ErrorIs(t, err, store.ErrUnavailable)
			require.ErrorContains(t, err, policy)

			st := open(t, e.url(), redisstore.AllowEviction())
			acquire(t, st, claim("k"))
			require.NoError(t, st.Check(t.Context()))
		})
	}
	t.Run("a policy that is changed later is seen by Check", func(t *testing.T) {
		e := privateEngine(t)
		st := open(t, e.url())
		require.NoError(t, command(t, e.url(), "CONFIG", "SET", "maxmemory-policy", "allkeys-lfu").Error())
		require.ErrorIs(t, st.Check(t.Context()), redisstore.ErrEviction)
	})
}

func TestForbiddenCommands(t *testing.T) {
	e := privateEngine(t)
	users := map[string]string{
		"noconfig": "-config",
		"noinfo":   "-info",
		"neither":  "-config -info",
		"none":     "-@all +hello +ping +client +cluster",
	}
	for name, rule := range users {
		args := []string{"ACL", "SETUSER", name, "on", ">secret", "~redo:*", "&redo:*", "+@all"}
		require.NoError(t, command(t, e.url(), append(args, strings.Fields(rule)...)...).Error())
	}
	urlOf := func(user string) string { return "redis://" + user + ":secret@" + e.url()[len("redis://"):] }

	t.Run("INFO returns the policy where CONFIG is forbidden", func(t *testing.T) {
		acquire(t, open(t, urlOf("noconfig")), claim("config"))
	})
	t.Run("CONFIG returns it where INFO is forbidden", func(t *testing.T) {
		acquire(t, open(t, urlOf("noinfo")), claim("info"))
	})
	t.Run("where both are forbidden the error names the option", func(t *testing.T) {
		_, err := redisstore.Open(t.Context(), urlOf("neither"))
		require.ErrorIs(t, err, redisstore.ErrEviction)
		require.ErrorIs(t, err, store.ErrUnavailable)
		require.ErrorContains(t, err, "AllowEviction")
		acquire(t, open(t, urlOf("neither"), redisstore.AllowEviction()), claim("neither"))
	})
	t.Run("a user that may not read the layout opens no store", func(t *testing.T) {
		_, err := redisstore.Open(t.Context(), urlOf("none"), redisstore.AllowEviction())
		require.ErrorIs(t, err, store.ErrUnavailable)
		require.ErrorContains(t, err, "NOPERM")
	})
	t.Run("a user that may run no script changes nothing", func(t *testing.T) {
		e.must(t, "ACL", "SETUSER", "none", "+get")
		st := open(t, urlOf("none"), redisstore.AllowEviction())
		_, err := st.Reserve(t.Context(), claim("none"))
		require.ErrorIs(t, err, store.ErrUnavailable)
		require.NotErrorIs(t, err, store.ErrUnknown)
		_, err = open(t, e.url()).Find(t.Context(), claim("none").ID)
		require.ErrorIs(t, err, store.ErrNotFound)
	})
}

// The package comment names the commands that a user of the store needs. Redis and Valkey both have all of them.
func TestLeastPrivilege(t *testing.T) {
	script := []string{
		"DEL", "GET", "PUBLISH", "SET", "SETRANGE", "TIME", "ZADD", "ZCOUNT", "ZRANGEBYSCORE", "ZREM", "ZSCORE",
	}
	files, err := filepath.Glob("lua/*.lua")
	require.NoError(t, err)
	called := map[string]bool{}
	for _, f := range files {
		source, err := os.ReadFile(f)
		require.NoError(t, err)
		for _, m := range regexp.MustCompile(`redis\.p?call\('(\w+)'`).FindAllSubmatch(source, -1) {
			called[string(m[1])] = true
		}
	}
	require.Equal(t, script, slices.Sorted(maps.Keys(called)))

	e := privateEngine(t)
	args := []string{"ACL", "SETUSER", "least", "on", ">secret", "~redo:*", "&redo:*", "-@all",
		"+hello", "+ping", "+client", "+cluster", "+evalsha", "+eval", "+config|get", "+info", "+zrange", "+getrange",
		"+subscribe", "+unsubscribe"}
	for _, c := range script {
		args = append(args, "+"+strings.ToLower(c))
	}
	e.must(t, args...)
	st := open(t, "redis://least:secret@"+e.url()[len("redis://"):])
	l := acquire(t, st, claim("k")).Lease
	require.NoError(t, st.Extend(t.Context(), l, 2*time.Hour, []byte("more")))
	waited := make(chan error, 1)
	go func() { waited <- st.Wait(t.Context(), l.ID, l.Fence) }()
	subscribers(t, e.url(), "redo", 1)
	awaited(t, e.url(), "redo")
	for _, err := range st.Pending(t.Context(), "") {
		require.NoError(t, err)
	}
	require.NoError(t, st.Complete(t.Context(), l, store.Outcome{Retention: time.Hour}))
	require.NoError(t, <-waited)
	require.NoError(t, st.Forget(t.Context(), l))
	brief := claim("brief")
	brief.Lease, brief.Retention = 0, time.Millisecond
	acquire(t, st, brief)
	until(t, "the brief claim is purged", func() bool {
		n, err := st.Purge(t.Context(), 1)
		require.NoError(t, err)
		return n == 1
	})
	for range 64 { // one in eight tidies up
		require.NoError(t, st.Release(t.Context(), acquire(t, st, claim("k")).Lease))
	}
}

func TestOpenRefused(t *testing.T) {
	e := privateEngine(t, "--requirepass", "right")
	at := e.url()[len("redis://"):]
	port, err := freeport.Port()
	require.NoError(t, err)
	down := &engine{port: port}
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	for _, c := range []struct {
		rule string
		ctx  context.Context
		url  string
		want error
	}{
		{"a wrong password is unavailable", t.Context(), "redis://:w0rst-kept@" + at, store.ErrUnavailable},
		{"a missing password is unavailable", t.Context(), "redis://" + at, store.ErrUnavailable},
		{"an engine that is down is unavailable", t.Context(), down.url(), store.ErrUnavailable},
		{"an unknown scheme is invalid", t.Context(), "http://:w0rst-kept@" + at, store.ErrInvalid},
		{"a URL that can't be parsed is invalid", t.Context(), "redis://:w0rst-kept/@" + at, store.ErrInvalid},
		{"no URL is invalid", t.Context(), "", store.ErrInvalid},
		{"an ended context is its error", canceled, "redis://:right@" + at, context.Canceled},
		{"an ended context comes first", canceled, "", context.Canceled},
	} {
		t.Run(c.rule, func(t *testing.T) {
			_, err := redisstore.Open(c.ctx, c.url)
			require.ErrorIs(t, err, c.want)
			require.NotContains(t, err.Error(), "w0rst")
		})
	}
	t.Run("a store that is refused or closed leaves no connection", func(t *testing.T) {
		one := privateEngine(t)
		alone := func() bool { return one.info(t, "clients")["connected_clients"] == "1" } // the one that asks
		st, err := redisstore.Open(t.Context(), one.url())
		require.NoError(t, err)
		require.False(t, alone())
		require.Equal(t, "0", one.info(t, "clients")["tracking_clients"], "nothing is cached")
		require.NoError(t, st.Close())
		until(t, "the connections end", alone)
		one.must(t, "SET", "redo:layout", "redo3:anything")
		_, err = redisstore.Open(t.Context(), one.url())
		require.ErrorIs(t, err, redisstore.ErrFormat)
		until(t, "the connections end", alone)
	})
	t.Run("the right password is let in", func(t *testing.T) {
		acquire(t, open(t, "redis://:right@"+at), claim("k"))
	})
}

func TestOptionsRefused(t *testing.T) {
	for rule, o := range map[string]redisstore.Option{
		"an empty prefix":               redisstore.WithPrefix(""),
		"a prefix with a hash tag":      redisstore.WithPrefix("{app}"),
		"a prefix with half a tag":      redisstore.WithPrefix("app}"),
		"a prefix that is too long":     redisstore.WithPrefix(string(make([]byte, 129))),
		"a largest result of zero":      redisstore.WithMaxResult(0),
		"a largest result of 513 MB":    redisstore.WithMaxResult(513 << 20),
		"a negative number of replicas": redisstore.WithReplicas(-1, time.Second),
		"replicas without a timeout":    redisstore.WithReplicas(1, 0),
		"replicas waited for too long":  redisstore.WithReplicas(1, time.Minute+1),
	} {
		t.Run(rule, func(t *testing.T) {
			_, err := redisstore.Open(t.Context(), "redis://127.0.0.1:1", nil, o)
			require.ErrorIs(t, err, store.ErrInvalid)
			_, err = redisstore.New(t.Context(), nil, o)
			require.ErrorIs(t, err, store.ErrInvalid)
		})
	}
	_, err := redisstore.New(t.Context(), nil)
	require.ErrorIs(t, err, store.ErrInvalid, "no client")
}

func TestClose(t *testing.T) {
	shared := client(t, sharedURL(t))
	t.Run("a client that was handed in stays open", func(t *testing.T) {
		st, err := redisstore.New(t.Context(), shared, redisstore.WithPrefix(prefix(t, sharedURL(t))),
			redisstore.WithReplicas(0, 0)) // the default
		require.NoError(t, err)
		closes(t, st)
		require.NoError(t, shared.Do(t.Context(), shared.B().Ping().Build()).Error())
	})
	t.Run("a closed store is unavailable and ends who waits", func(t *testing.T) {
		closes(t, open(t, sharedURL(t), redisstore.WithPrefix(prefix(t, sharedURL(t)))))
	})
}

// closes closes the store, which is unavailable then.
func closes(t *testing.T, st *redisstore.Store) {
	t.Helper()
	c := claim("k")
	l := acquire(t, st, c).Lease
	waited := make(chan error, 1)
	go func() { waited <- st.Wait(t.Context(), l.ID, l.Fence) }()
	require.NoError(t, st.Release(t.Context(), l))
	require.NoError(t, <-waited)

	l = acquire(t, st, c).Lease
	go func() { waited <- st.Wait(t.Context(), l.ID, l.Fence) }()
	require.NoError(t, st.Complete(t.Context(), acquire(t, st, claim("settled")).Lease, store.Outcome{}))
	require.NoError(t, st.Close())
	require.ErrorIs(t, <-waited, store.ErrUnavailable)
	require.NoError(t, st.Close(), "closing again does nothing")

	_, reserve := st.Reserve(t.Context(), claim("other"))
	_, find := st.Find(t.Context(), c.ID)
	purged, purge := st.Purge(t.Context(), 1)
	require.Zero(t, purged)
	var pending error
	for _, err := range st.Pending(t.Context(), "") {
		pending = err
	}
	for _, err := range []error{reserve, find, purge, pending, st.Extend(t.Context(), l, 0, nil),
		st.Release(t.Context(), l),
		st.Complete(t.Context(), l, store.Outcome{}), st.Forget(t.Context(), l), st.Check(t.Context()),
		st.Wait(t.Context(), c.ID, 0)} {
		require.ErrorIs(t, err, store.ErrUnavailable)
		require.False(t, errors.Is(err, store.ErrUnknown))
	}
}
