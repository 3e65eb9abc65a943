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

// A listener is a client that notes what is sent through it.
type listener struct {
	rueidis.Client
	sent [][]string
}

func (l *listener) Do(ctx context.Context, cmd rueidis.Completed) rueidis.RedisResult {
	l.sent = append(l.sent, slices.Clone(cmd.Commands()))
	return l.Client.Do(ctx, cmd)
}

// What a call takes beside rueidis' own for as many commands: a change that raises it has to say so here. The race detector
// allocates on its own, so that the count means nothing under it.
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
	reserve(listening, settled)
	words := heard.sent[0]
	drivers := testing.AllocsPerRun(200, func() {
		cmd := cl.B().Evalsha().Sha1(words[1]).Numkeys(2).Key(words[3:5]...).Arg(words[5:]...).Build()
		_, err := cl.Do(ctx, cmd).ToString()
		require.NoError(t, err)
	})
	for _, c := range []struct {
		calls string
		own   float64
		call  func(*redisstore.Store)
	}{
		// The record's key, the other words, the meta's copy, and the copies of the record's meta and result in one.
		{"a replay", 4, func(st *redisstore.Store) { reserve(st, settled) }},
		{"Find", 2, func(st *redisstore.Store) {
			_, err := st.Find(ctx, settled.ID)
			require.NoError(t, err)
		}},
		{"Extend", 2, func(st *redisstore.Store) { require.NoError(t, st.Extend(ctx, lease, time.Hour, nil)) }},
		// A claim's meta is copied twice: for the command, and for the grant.
		{"Reserve and Release", 4 + 2, func(st *redisstore.Store) { require.NoError(t, st.Release(ctx, reserve(st, changing))) }},
		// The key, the other words, the result's copy.
		{"Reserve, Complete and Forget", 4 + 3 + 2, func(st *redisstore.Store) {
			l := reserve(st, changing)
			require.NoError(t, st.Complete(ctx, l, outcome))
			require.NoError(t, st.Forget(ctx, l))
		}},
	} {
		t.Run(c.calls, func(t *testing.T) {
			heard.sent = nil
			c.call(st) // the server learns the scripts
			c.call(listening)
			require.Equal(t, c.own, testing.AllocsPerRun(200, func() { c.call(st) })-float64(len(heard.sent))*drivers)
		})
	}
}
