//go:build !race

package redisstore_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/redisstore"
	"github.com/stretchr/testify/require"
)

// A listener is a client that records the commands that are sent through it.
type listener struct {
	rueidis.Client
	sent [][]string
}

func (l *listener) Do(ctx context.Context, cmd rueidis.Completed) rueidis.RedisResult {
	l.sent = append(l.sent, slices.Clone(cmd.Commands()))
	return l.Client.Do(ctx, cmd)
}

// The allocations of a call beside rueidis' own for the same commands. A change that raises a number changes it
// here. The race detector itself allocates, so the count means nothing under it.
func TestAllocations(t *testing.T) {
	url := sharedURL(t)
	p := prefix(t, url)
	o, err := rueidis.ParseURL(url)
	require.NoError(t, err)
	o.DisableCache, o.PipelineMultiplex = true, -1 // one connection, so that none is made while counting
	cl, err := rueidis.NewClient(o)
	require.NoError(t, err)
	defer cl.Close()
	heard := &listener{Client: cl}
	listening, err := redisstore.New(t.Context(), heard, redisstore.WithPrefix(p))
	require.NoError(t, err)
	st, err := redisstore.New(t.Context(), cl, redisstore.WithPrefix(p))
	require.NoError(t, err)

	settled, running, changing := claim("settled"), claim("running"), claim("changing")
	outcome := store.Outcome{Result: make([]byte, 512), Retention: time.Hour}
	require.NoError(t, st.Complete(t.Context(), acquire(t, st, settled).Lease, outcome))
	lease := acquire(t, st, running).Lease
	ctx := context.Background() // a context that can't end lets rueidis do all its work in the caller's goroutine
	reserve := func(st *redisstore.Store, c store.Claim) store.Lease {
		g, err := st.Reserve(ctx, c)
		require.NoError(t, err)
		return g.Lease
	}
	// baseline counts the allocations of rueidis for the command that call sends. They depend on the kind of the
	// reply.
	baseline := func(call func()) float64 {
		heard.sent = nil
		call()
		words := heard.sent[0]
		return testing.AllocsPerRun(200, func() {
			cmd := cl.B().Evalsha().Sha1(words[1]).Numkeys(2).Key(words[3:5]...).Arg(words[5:]...).Build()
			require.NoError(t, cl.Do(ctx, cmd).Error())
		})
	}
	list := baseline(func() { reserve(listening, settled) })
	word := baseline(func() { require.NoError(t, listening.Extend(ctx, lease, time.Hour, nil)) })
	for _, c := range []struct {
		calls  string
		driver float64
		own    float64
		call   func(*redisstore.Store)
	}{
		// The record's key, the arguments in one, and the copies of the record's meta and result in one.
		{"a replay", list, 3, func(st *redisstore.Store) { reserve(st, settled) }},
		{"Find", list, 2, func(st *redisstore.Store) {
			_, err := st.Find(ctx, settled.ID)
			require.NoError(t, err)
		}},
		{"Extend", word, 3, func(st *redisstore.Store) { require.NoError(t, st.Extend(ctx, lease, time.Hour, nil)) }},
		// The record's key, the arguments in one, and the grant's copy of the meta.
		{
			"Reserve and Release", 2 * word, 3 + 2,
			func(st *redisstore.Store) { require.NoError(t, st.Release(ctx, reserve(st, changing))) },
		},
		// The key, the fence, the retention, the result's copy.
		{"Reserve, Complete and Forget", 3 * word, 3 + 4 + 2, func(st *redisstore.Store) {
			l := reserve(st, changing)
			require.NoError(t, st.Complete(ctx, l, outcome))
			require.NoError(t, st.Forget(ctx, l))
		}},
	} {
		t.Run(c.calls, func(t *testing.T) {
			c.call(st) // the server loads the scripts
			require.Equal(t, c.own, testing.AllocsPerRun(200, func() { c.call(st) })-c.driver)
		})
	}
}
