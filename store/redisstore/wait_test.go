package redisstore_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/redisstore"
	"github.com/stretchr/testify/require"
)

// subscribers polls until the store's channel has as many as wanted.
func subscribers(t *testing.T, url, p string, want int64) {
	t.Helper()
	tick := time.NewTicker(poll)
	defer tick.Stop()
	for begun := time.Now(); ; <-tick.C {
		reply, err := command(t, url, "PUBSUB", "NUMSUB", p+":wake").ToArray()
		require.NoError(t, err)
		n, err := reply[1].AsInt64()
		require.NoError(t, err)
		if n == want {
			return
		}
		require.Less(t, time.Since(begun), patience, "%d subscribe, want %d", n, want)
	}
}

// awaited polls until a caller waits for the only record under the prefix.
func awaited(t *testing.T, url, p string) {
	t.Helper()
	key := recordKey(t, url, p)
	tick := time.NewTicker(poll)
	defer tick.Stop()
	for begun := time.Now(); ; <-tick.C {
		mark, err := command(t, url, "GETRANGE", key, "6", "6").ToString()
		require.NoError(t, err)
		if mark == "w" {
			return
		}
		require.Less(t, time.Since(begun), patience, "no caller waits")
	}
}

func TestWaitersShareOneSubscription(t *testing.T) {
	e := privateEngine(t)
	st := open(t, e.url(), redisstore.WithPrefix("waiters"))
	waited := make(chan error)
	var leases []store.Lease
	for i := range 32 {
		l := acquire(t, st, claim(fmt.Sprint(i))).Lease
		leases = append(leases, l)
		for range 2 {
			go func() { waited <- st.Wait(t.Context(), l.ID, l.Fence) }()
		}
	}
	subscribers(t, e.url(), "waiters", 1)
	for _, l := range leases {
		require.NoError(t, st.Complete(t.Context(), l, store.Outcome{}))
	}
	for range 64 {
		require.NoError(t, <-waited)
	}
	subscribers(t, e.url(), "waiters", 1)
	require.NoError(t, st.Close())
	subscribers(t, e.url(), "waiters", 0)
}

func TestWaitSurvivesALostSubscription(t *testing.T) {
	e := privateEngine(t)
	st := open(t, e.url(), redisstore.WithPrefix("lost"))
	l := acquire(t, st, claim("k")).Lease
	waited := make(chan error, 1)
	go func() { waited <- st.Wait(t.Context(), l.ID, l.Fence) }()
	awaited(t, e.url(), "lost")
	subscribers(t, e.url(), "lost", 1)
	require.NoError(t, command(t, e.url(), "CLIENT", "KILL", "TYPE", "pubsub").Error())
	// Another handle completes it, perhaps while there is no subscription.
	require.NoError(t, open(t, e.url(), redisstore.WithPrefix("lost")).Complete(t.Context(), l, store.Outcome{}))
	require.NoError(t, <-waited)
}

// A lastingReads client notes a read for waiters that has no time limit.
type lastingReads struct {
	rueidis.Client
	seen chan struct{}
}

func (c lastingReads) Do(ctx context.Context, cmd rueidis.Completed) rueidis.RedisResult {
	words := cmd.Commands()
	if _, limited := ctx.Deadline(); !limited && words[len(words)-1] == "w" {
		select {
		case c.seen <- struct{}{}:
		default:
		}
	}
	return c.Client.Do(ctx, cmd)
}

// The poller reads often, and with a time limit, until it knows of the subscription.
func TestThePollerKnowsOfTheSubscription(t *testing.T) {
	url := sharedURL(t)
	c := lastingReads{client(t, url), make(chan struct{}, 1)}
	st, err := redisstore.New(t.Context(), c, redisstore.WithPrefix(prefix(t, url)))
	require.NoError(t, err)
	defer st.Close()
	l := acquire(t, st, claim("k")).Lease
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	waited := make(chan error, 1)
	go func() { waited <- st.Wait(ctx, l.ID, l.Fence) }()
	select {
	case <-c.seen:
	case <-ctx.Done():
		require.Fail(t, "each read has a time limit")
	}
	require.NoError(t, st.Release(ctx, l))
	require.NoError(t, <-waited)
}

// Publishing reaches every node of a cluster, so it must cost nothing where no caller waits.
func TestNothingIsPublishedUnlessSomebodyWaits(t *testing.T) {
	e := privateEngine(t)
	const p = "quiet"
	st := open(t, e.url(), redisstore.WithPrefix(p))
	c := client(t, e.url())
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	heard := make(chan string, 64)
	go func() {
		_ = c.Receive(ctx, c.B().Subscribe().Channel(p+":wake").Build(), func(m rueidis.PubSubMessage) {
			heard <- m.Message
		})
	}()
	subscribers(t, e.url(), p, 1)

	require.NoError(t, st.Complete(t.Context(), acquire(t, st, claim("completed")).Lease, store.Outcome{}))
	require.NoError(t, st.Release(t.Context(), acquire(t, st, claim("released")).Lease))
	require.NoError(t, st.Forget(t.Context(), mustFind(t, st, claim("completed").ID).Lease()))

	l := acquire(t, st, claim("awaited")).Lease
	waited := make(chan error, 1)
	go func() { waited <- st.Wait(t.Context(), l.ID, l.Fence) }()
	awaited(t, e.url(), p)
	require.NoError(t, st.Release(t.Context(), l))
	require.NoError(t, <-waited)
	require.Regexp(t, "^"+p+":{..}:r:5:scopeawaited$", <-heard)
	require.Empty(t, heard, "one message, for the record with a waiter")

	unleased := claim("overtaken")
	unleased.Lease = 0
	l = acquire(t, st, unleased).Lease
	go func() { waited <- st.Wait(t.Context(), l.ID, l.Fence) }()
	awaited(t, e.url(), p)
	_, err := st.Reserve(t.Context(), unleased)
	require.NoError(t, err)
	require.Regexp(t, "overtaken$", <-heard, "a take-over is published too")
	require.NoError(t, <-waited)
}

func mustFind(t *testing.T, st store.Store, id store.ID) store.Record {
	t.Helper()
	r, err := st.Find(t.Context(), id)
	require.NoError(t, err)
	return r
}
