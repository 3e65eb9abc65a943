package redisstore

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/store"
)

// A subscription is a client without a server.
type subscription struct {
	rueidis.Client
	receive func(context.Context) error
}

func (subscription) B() rueidis.Builder { return rueidis.Builder{} }

func (s subscription) Receive(ctx context.Context, _ rueidis.Completed, _ func(rueidis.PubSubMessage)) error {
	return s.receive(ctx)
}

// A pending engine has one record, which stays pending while the Store lives.
type pendingEngine struct {
	store.Store
	s *Store
}

func (p pendingEngine) Find(ctx context.Context, id store.ID) (store.Record, error) {
	return store.Record{ID: id, State: store.StatePending, Fence: 1}, p.s.ready(ctx)
}

// subscribed is a Store without a server.
func subscribed(receive func(context.Context) error) *Store {
	s := &Store{client: subscription{receive: receive}}
	s.life, s.end = context.WithCancel(context.Background())
	s.poller = store.Poll(pendingEngine{s: s})
	return s
}

func TestCloseWaitsForTheListener(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leave, closed := make(chan struct{}), false
		s := subscribed(func(ctx context.Context) error {
			<-ctx.Done()
			<-leave
			return ctx.Err()
		})
		go func() { _ = s.Wait(t.Context(), store.ID{Key: "k"}, 1) }()
		synctest.Wait()
		go func() {
			_ = s.Close()
			closed = true
		}()
		synctest.Wait()
		require.False(t, closed, "the subscription uses the client, which its maker closes next")
		close(leave)
		synctest.Wait()
		require.True(t, closed)
	})
}

func TestCloseEndsWaitersWithoutASubscription(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := subscribed(func(context.Context) error { return rueidis.ErrClosing })
		waited := make(chan error, 1)
		go func() { waited <- s.Wait(t.Context(), store.ID{Key: "k"}, 1) }()
		time.Sleep(listenAgain + listenAgain/2) // the listener and the poller pause
		begun := time.Now()
		require.NoError(t, s.Close())
		require.ErrorIs(t, <-waited, store.ErrUnavailable)
		require.Zero(t, time.Since(begun))
	})
}

func TestAClosedStoreSubscribesToNothing(t *testing.T) {
	s := subscribed(nil)
	require.NoError(t, s.Close())
	s.listening.Do(func() { t.Error("a listener may begin after Close") })
}

func TestASubscriptionThatEndsIsMadeAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun, at := time.Now(), []time.Duration(nil)
		s := subscribed(func(context.Context) error {
			at = append(at, time.Since(begun))
			return rueidis.ErrClosing
		})
		s.poller.Pushed(true)
		s.listening.Do(func() { s.listener.Go(s.listen) })
		waited := make(chan error, 1)
		go func() { waited <- s.poller.Wait(t.Context(), store.ID{Key: "k"}, 1) }()
		time.Sleep(2*listenAgain + listenAgain/2)
		synctest.Wait()
		require.Equal(t, []time.Duration{0, listenAgain, 2 * listenAgain}, at)
		s.end()
		require.ErrorIs(t, <-waited, store.ErrUnavailable)
		require.Less(t, time.Since(begun), 3*listenAgain, "the waiters poll meanwhile")
		require.NoError(t, s.Close())
	})
}
