package redisstore_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"testing"
	"time"

	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/redisstore"
	"github.com/stretchr/testify/require"
)

// cutOnce breaks the connection after the server has run the next call, and before its response arrives.
func cutOnce(t *testing.T, p *proxy, call func() error) {
	t.Helper()
	p.set(cut)
	err := call()
	p.set(pass)
	require.ErrorIs(t, err, store.ErrUnknown)
	require.NotErrorIs(t, err, store.ErrUnavailable)
	require.NotContains(t, err.Error(), "%!", "the text is made of errors")
	<-p.faulted
}

func TestAnswerLost(t *testing.T) {
	e := privateEngine(t)
	direct := open(t, e.url())
	// The server must know the scripts. Otherwise the response that is cut off reports that it doesn't.
	warm := acquire(t, direct, claim("warm")).Lease
	require.NoError(t, direct.Extend(t.Context(), warm, 0, nil))
	require.NoError(t, direct.Complete(t.Context(), warm, store.Outcome{}))
	require.NoError(t, direct.Forget(t.Context(), warm))
	require.NoError(t, direct.Release(t.Context(), acquire(t, direct, claim("warm")).Lease))
	p := newProxy(t, e.port)
	st := open(t, p.url())
	find := func(t *testing.T, id store.ID) store.Record {
		t.Helper()
		r, err := direct.Find(t.Context(), id)
		require.NoError(t, err)
		return r
	}
	t.Run("a reservation is unknown, and found", func(t *testing.T) {
		c := claim("reserve")
		cutOnce(t, p, func() error { _, err := st.Reserve(t.Context(), c); return err })
		require.Equal(t, store.StatePending, find(t, c.ID).State)
	})
	t.Run("Held settles a lost response of Reserve", func(t *testing.T) {
		c := claim("held")
		c.Owner = "first"
		cutOnce(t, p, func() error { _, err := st.Reserve(t.Context(), c); return err })
		g, ok := store.Held(find(t, c.ID), c)
		require.True(t, ok)
		require.Equal(t, store.Acquired, g.Verdict)
		require.NoError(t, st.Extend(t.Context(), g.Lease, 0, nil), "the lease holds; it ends here")

		second := c
		second.Owner, second.Meta = "second", []byte("of the second claim")
		cutOnce(t, p, func() error { _, err := st.Reserve(t.Context(), second); return err })
		_, ok = store.Held(find(t, c.ID), c)
		require.False(t, ok, "the first owner lost the record")
		g, ok = store.Held(find(t, c.ID), second)
		require.True(t, ok)
		require.Equal(t, store.TakenOver, g.Verdict)
		require.NoError(t, st.Complete(t.Context(), g.Lease, store.Outcome{Result: []byte("result")}))

		third := claim("held")
		third.Owner = "third"
		cutOnce(t, p, func() error { _, err := st.Reserve(t.Context(), third); return err })
		_, ok = store.Held(find(t, c.ID), third)
		require.False(t, ok, "the response that was lost was a result")
	})
	t.Run("a completion is unknown, and found under its own fence", func(t *testing.T) {
		l := acquire(t, direct, claim("complete")).Lease
		cutOnce(t, p, func() error { return st.Complete(t.Context(), l, store.Outcome{Result: []byte("result")}) })
		r := find(t, l.ID)
		require.Equal(t, store.StateComplete, r.State)
		require.Equal(t, l.Fence, r.Fence)
	})
	t.Run("a release, an extension and a forgetting are unknown", func(t *testing.T) {
		l := acquire(t, direct, claim("release")).Lease
		cutOnce(t, p, func() error { return st.Extend(t.Context(), l, 0, []byte("more")) })
		require.Equal(t, "more", string(find(t, l.ID).Meta))
		cutOnce(t, p, func() error { return st.Release(t.Context(), l) })
		_, err := direct.Find(t.Context(), l.ID)
		require.ErrorIs(t, err, store.ErrNotFound)

		l = acquire(t, direct, claim("forget")).Lease
		require.NoError(t, direct.Complete(t.Context(), l, store.Outcome{}))
		cutOnce(t, p, func() error { return st.Forget(t.Context(), l) })
	})
	t.Run("a look is unavailable, since it changes nothing", func(t *testing.T) {
		p.set(cut)
		_, err := st.Find(t.Context(), claim("complete").ID)
		p.set(pass)
		require.ErrorIs(t, err, store.ErrUnavailable)
		require.NotErrorIs(t, err, store.ErrUnknown)
	})
}

func TestContextEndsBeforeTheAnswer(t *testing.T) {
	e := privateEngine(t)
	// A proxy and a store for each: a stalled connection stays so.
	stalled := func(t *testing.T, call func(ctx context.Context, st *redisstore.Store) error) error {
		t.Helper()
		p := newProxy(t, e.port)
		st := open(t, p.url())
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		p.set(stall)
		go func() {
			<-p.faulted
			cancel()
		}()
		return call(ctx, st)
	}
	t.Run("a write is unknown, and its error the context's too", func(t *testing.T) {
		err := stalled(t, func(ctx context.Context, st *redisstore.Store) error {
			_, err := st.Reserve(ctx, claim("k"))
			return err
		})
		require.ErrorIs(t, err, store.ErrUnknown)
		require.ErrorIs(t, err, context.Canceled)
	})
	t.Run("a look's error is the context's", func(t *testing.T) {
		err := stalled(t, func(ctx context.Context, st *redisstore.Store) error {
			_, err := st.Find(ctx, claim("k").ID)
			return err
		})
		require.Equal(t, context.Canceled, err)
	})
	t.Run("so is that of opening", func(t *testing.T) {
		p := newProxy(t, e.port)
		p.set(stallHere)
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			<-p.faulted
			cancel()
		}()
		_, err := redisstore.Open(ctx, p.url())
		require.ErrorIs(t, err, context.Canceled)
	})
	t.Run("a connection that opening makes too late is closed", func(t *testing.T) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		defer l.Close()
		ctx, cancel := context.WithCancel(t.Context())
		dialed := make(chan net.Conn, 1)
		go func() {
			c, _ := l.Accept()
			cancel()
			dialed <- c
		}()
		_, err = redisstore.Open(ctx, "redis://"+l.Addr().String())
		require.ErrorIs(t, err, context.Canceled)

		late := <-dialed
		defer late.Close()
		server, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", e.port))
		require.NoError(t, err)
		defer server.Close()
		go func() { _, _ = io.Copy(late, server) }()
		require.NoError(t, late.SetReadDeadline(time.Now().Add(patience)))
		_, err = io.Copy(server, late)
		require.NoError(t, err, "the client ends its connection")
	})
}
