package redisstore_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/redisstore"
	"github.com/stretchr/testify/require"
)

// What a server refuses was not done, and the error says so: unavailable, never unknown.
func TestServerRefusesWrites(t *testing.T) {
	refuses := func(t *testing.T, st *redisstore.Store, l store.Lease, why string) {
		t.Helper()
		_, reserve := st.Reserve(t.Context(), claim("refused"))
		for call, err := range map[string]error{
			"Reserve":  reserve,
			"Extend":   st.Extend(t.Context(), l, 0, []byte("refused")),
			"Complete": st.Complete(t.Context(), l, store.Outcome{}),
			"Release":  st.Release(t.Context(), l),
		} {
			require.ErrorIs(t, err, store.ErrUnavailable, call)
			require.NotErrorIs(t, err, store.ErrUnknown, call)
			require.ErrorContains(t, err, why, call)
		}
	}
	untouched := func(t *testing.T, st *redisstore.Store, before store.Record) {
		t.Helper()
		_, err := st.Find(t.Context(), claim("refused").ID)
		require.ErrorIs(t, err, store.ErrNotFound)
		after := mustFind(t, st, before.ID)
		after.ReadAt = before.ReadAt
		require.Equal(t, before, after)
		n := 0
		for _, err := range st.Pending(t.Context(), "") {
			require.NoError(t, err)
			n++
		}
		require.Equal(t, 1, n)
	}
	e := privateEngine(t)
	replica := privateReplica(t, e)
	st := open(t, e.url())
	l := acquire(t, st, claim("k")).Lease
	before := mustFind(t, st, l.ID)
	replica.inStepWith(t, e)

	t.Run("a replica", func(t *testing.T) {
		there := open(t, replica.url())
		refuses(t, there, l, "READONLY")
		untouched(t, there, before)
	})
	t.Run("a primary that has too few replicas for its setting", func(t *testing.T) {
		e.must(t, "CONFIG", "SET", "min-replicas-to-write", "2")
		refuses(t, st, l, "NOREPLICAS")
		untouched(t, st, before)
		e.must(t, "CONFIG", "SET", "min-replicas-to-write", "0")
	})
	t.Run("a server that is busy with somebody's script", func(t *testing.T) {
		e.must(t, "CONFIG", "SET", "lua-time-limit", "1")
		looping := make(chan error, 1)
		go func() { looping <- command(t, e.url(), "EVAL", "while true do end", "0").Error() }()
		until(t, "the server is busy", func() bool { return command(t, e.url(), "PING").Error() != nil })
		refuses(t, st, l, "BUSY")
		e.must(t, "SCRIPT", "KILL")
		require.ErrorContains(t, <-looping, "killed")
		untouched(t, st, before)
	})
	t.Run("a password that was changed", func(t *testing.T) {
		e.must(t, "CONFIG", "SET", "requirepass", "n3w-password")
		with := "redis://:n3w-password@" + e.url()[len("redis://"):]
		require.NoError(t, command(t, with, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes").Error())
		until(t, "the connection's end is noticed", func() bool {
			_, err := st.Find(t.Context(), l.ID)
			require.ErrorIs(t, err, store.ErrUnavailable)
			return strings.Contains(err.Error(), "NOAUTH")
		})
		refuses(t, st, l, "NOAUTH")
		require.NoError(t, command(t, with, "CONFIG", "SET", "requirepass", "").Error())
		untouched(t, st, before)
	})
	t.Run("a cluster that serves no slots", func(t *testing.T) {
		alone := privateEngine(t, "--cluster-enabled", "yes")
		st := open(t, alone.url())
		_, err := st.Reserve(t.Context(), claim("k"))
		require.ErrorIs(t, err, store.ErrUnavailable)
		require.NotErrorIs(t, err, store.ErrUnknown)
	})
}

// The engine's own limit on a value may be below the store's. It answers with an error and hangs up.
func TestResultTooLargeForTheServer(t *testing.T) {
	e := privateEngine(t, "--proto-max-bulk-len", "1mb")
	st := open(t, e.url())
	l := acquire(t, st, claim("k")).Lease
	err := st.Complete(t.Context(), l, store.Outcome{Result: make([]byte, 2<<20)})
	require.True(t, errors.Is(err, store.ErrUnknown) || errors.Is(err, store.ErrUnavailable), err)
	until(t, "the record is read as it was", func() bool {
		r, err := st.Find(t.Context(), l.ID)
		return err == nil && r.State == store.StatePending
	})

	// The store holds several connections, and the one that was hung up on may be met once more: of that call nothing
	// can be known, and nothing was done.
	until(t, "a result within the limit is taken", func() bool {
		err := st.Complete(t.Context(), l, store.Outcome{Result: make([]byte, 1<<19)})
		require.True(t, err == nil || errors.Is(err, store.ErrUnknown), err)
		return err == nil
	})
}
