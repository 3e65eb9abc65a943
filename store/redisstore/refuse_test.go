package redisstore_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/redisstore"
	"github.com/stretchr/testify/require"
)

// A write that a server refuses was not done, and the error reports that: unavailable, never unknown.
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
	settled, err := settle(t, st, claim("settled"))
	require.NoError(t, err)
	l := acquire(t, st, claim("k")).Lease
	before := mustFind(t, st, l.ID)
	replica.inStepWith(t, e)

	t.Run("a replica", func(t *testing.T) {
		there := open(t, replica.url())
		refuses(t, there, l, "READONLY")
		for _, id := range []store.ID{l.ID, claim("refused").ID} {
			_, err := there.Find(t.Context(), id) // the replica may be behind
			require.ErrorIs(t, err, store.ErrUnavailable)
			require.NotErrorIs(t, err, store.ErrNotFound)
			require.ErrorContains(t, err, "READONLY")
		}
		for r, err := range there.Pending(t.Context(), "") {
			require.NoError(t, err)
			require.Equal(t, l.ID, r.ID)
		}
		untouched(t, st, before)
	})
	t.Run("a primary that has too few replicas for its setting", func(t *testing.T) {
		e.must(t, "CONFIG", "SET", "min-replicas-to-write", "2")
		refuses(t, st, l, "NOREPLICAS")
		untouched(t, st, before)
		e.must(t, "CONFIG", "SET", "min-replicas-to-write", "0")
	})
	t.Run("a primary that could not write its last snapshot", func(t *testing.T) {
		// A directory is in the snapshot's place. That stops a server that runs as root too.
		snapshot := filepath.Join(e.dir, "dump.rdb")
		require.NoError(t, os.RemoveAll(snapshot))
		require.NoError(t, os.Mkdir(snapshot, 0o700))
		e.must(t, "CONFIG", "SET", "save", "3600 1")
		e.saves(t, "err")
		refuses(t, st, l, "MISCONF")
		forget := st.Forget(t.Context(), settled)
		require.ErrorIs(t, forget, store.ErrUnavailable)
		require.NotErrorIs(t, forget, store.ErrUnknown)

		// Calls that change nothing still work, also for a store that connects only now.
		later := open(t, e.url())
		for _, st := range []*redisstore.Store{st, later} {
			untouched(t, st, before)
			require.NoError(t, st.Check(t.Context()))
			for key, verdict := range map[string]store.Verdict{"settled": store.Complete, "k": store.InFlight} {
				g, err := st.Reserve(t.Context(), claim(key))
				require.NoError(t, err)
				require.Equal(t, verdict, g.Verdict)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), soon)
		defer cancel()
		require.Equal(t, context.DeadlineExceeded, later.Wait(ctx, l.ID, l.Fence),
			"no mark can be made, and it is waited for")

		require.NoError(t, os.Remove(snapshot))
		e.saves(t, "ok")
		e.must(t, "CONFIG", "SET", "save", "")
		_, err := settle(t, st, claim("after"))
		require.NoError(t, err)
	})
	t.Run("a server that is busy with another client's script", func(t *testing.T) {
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
		// On one connection: of several, one may break that was not used since.
		o, err := rueidis.ParseURL(e.url())
		require.NoError(t, err)
		o.DisableCache, o.PipelineMultiplex = true, -1
		c, err := rueidis.NewClient(o)
		require.NoError(t, err)
		t.Cleanup(c.Close)
		one, err := redisstore.New(t.Context(), c)
		require.NoError(t, err)

		e.must(t, "CONFIG", "SET", "requirepass", "n3w-password")
		with := "redis://:n3w-password@" + e.url()[len("redis://"):]
		require.NoError(t, command(t, with, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes").Error())
		until(t, "the connection's end is noticed", func() bool {
			_, err := one.Find(t.Context(), l.ID)
			require.ErrorIs(t, err, store.ErrUnavailable)
			return strings.Contains(err.Error(), "NOAUTH")
		})
		refuses(t, one, l, "NOAUTH")
		require.NoError(t, command(t, with, "CONFIG", "SET", "requirepass", "").Error())
		untouched(t, one, before)
	})
	t.Run("a cluster that serves no slots", func(t *testing.T) {
		alone := privateEngine(t, "--cluster-enabled", "yes")
		_, err := redisstore.Open(t.Context(), alone.url())
		require.ErrorIs(t, err, store.ErrUnavailable)
		require.NotErrorIs(t, err, store.ErrUnknown)
	})
}

// saves makes the server write a snapshot, and waits for its end.
func (e *engine) saves(t *testing.T, want string) {
	t.Helper()
	e.must(t, "BGSAVE")
	until(t, "the snapshot has ended", func() bool { return e.info(t, "persistence")["rdb_bgsave_in_progress"] == "0" })
	require.Equal(t, want, e.info(t, "persistence")["rdb_last_bgsave_status"])
}

// Nothing is evicted, so a full server must refuse new work. It still serves the work that was begun.
func TestFullServer(t *testing.T) {
	e := privateEngine(t)
	st := open(t, e.url())
	begun := acquire(t, st, claim("begun")).Lease
	dropped := acquire(t, st, claim("dropped")).Lease
	forgotten, err := settle(t, st, claim("forgotten"))
	require.NoError(t, err)
	unleased := claim("unleased")
	unleased.Lease = 0
	abandoned := acquire(t, st, unleased).Lease
	before := mustFind(t, st, abandoned.ID)
	e.must(t, "CONFIG", "SET", "maxmemory", "1mb")
	require.NoError(t, st.Check(t.Context()))

	t.Run("a claim and a take-over are refused and change nothing", func(t *testing.T) {
		for _, c := range []store.Claim{claim("new"), unleased} {
			_, err := st.Reserve(t.Context(), c)
			require.ErrorIs(t, err, store.ErrUnavailable)
			require.NotErrorIs(t, err, store.ErrUnknown)
			require.ErrorContains(t, err, "OOM")
		}
		_, err := st.Find(t.Context(), claim("new").ID)
		require.ErrorIs(t, err, store.ErrNotFound)
		after := mustFind(t, st, abandoned.ID)
		after.ReadAt = before.ReadAt
		require.Equal(t, before, after)
		var listed []string
		for r, err := range st.Pending(t.Context(), "") {
			require.NoError(t, err)
			listed = append(listed, r.ID.Key)
		}
		require.Equal(t, []string{"begun", "dropped", "unleased"}, listed)
	})
	t.Run("who waits goes on waiting", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		require.Equal(t, context.DeadlineExceeded, st.Wait(ctx, begun.ID, begun.Fence))
	})
	t.Run("an owner renews, notes and completes", func(t *testing.T) {
		ends := mustFind(t, st, begun.ID).LeaseUntil
		require.NoError(t, st.Extend(t.Context(), begun, 2*time.Hour, nil), "a heartbeat")
		require.Greater(t, mustFind(t, st, begun.ID).LeaseUntil, ends)
		require.NoError(t, st.Extend(t.Context(), begun, 48*time.Hour, []byte("beyond the record's end")))
		require.NoError(t, st.Complete(t.Context(), begun, store.Outcome{Result: []byte("result")}))
		g, err := st.Reserve(t.Context(), claim("begun"))
		require.NoError(t, err)
		require.Equal(t, store.Complete, g.Verdict)
		require.Equal(t, "result", string(g.Record.Result))
	})
	t.Run("a call that makes room is done", func(t *testing.T) {
		require.NoError(t, st.Release(t.Context(), dropped))
		require.NoError(t, st.Forget(t.Context(), forgotten))
	})
	t.Run("with room again claims are taken", func(t *testing.T) {
		e.must(t, "CONFIG", "SET", "maxmemory", "0")
		acquire(t, st, claim("new"))
		g, err := st.Reserve(t.Context(), unleased)
		require.NoError(t, err)
		require.Equal(t, store.TakenOver, g.Verdict)
	})
}

// The engine's own limit on a value may be below the store's. It returns an error and hangs up.
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

	// The store has several connections. A call on the closed one is unknown, and changes nothing.
	until(t, "a result within the limit is taken", func() bool {
		err := st.Complete(t.Context(), l, store.Outcome{Result: make([]byte, 1<<19)})
		require.True(t, err == nil || errors.Is(err, store.ErrUnknown), err)
		return err == nil
	})
}
