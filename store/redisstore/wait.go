package redisstore

import (
	"context"
	"time"

	"github.com/redis/rueidis"
	"github.com/redo-go/redo/store"
)

// listenAgain is the pause before a lost subscription is renewed.
const listenAgain = time.Second

// Wait implements store.Waiter. All waiters of a Store share one subscription, which begins with the first Wait and
// lasts until Close, and all waiters of a record share its reads. A transition is published only if the record has
// waiters. Without a subscription, or without permission to subscribe, waiters poll.
func (s *Store) Wait(ctx context.Context, id store.ID, fence uint64) error {
	if err := s.ready(ctx); err != nil {
		return err
	}
	s.listening.Do(func() { s.listener.Go(s.listen) })
	return s.poller.Wait(ctx, id, fence)
}

// An awaited store marks the pending records that it finds: a change of a marked record is published.
type awaited struct{ *Store }

// Find is Find of a record that has waiters.
func (a awaited) Find(ctx context.Context, id store.ID) (store.Record, error) {
	return a.find(ctx, id, "w")
}

// listen keeps the subscription until Close.
func (s *Store) listen() {
	ctx := s.life
	hooked := rueidis.WithOnSubscriptionHook(ctx, func(sub rueidis.PubSubSubscription) {
		if sub.Kind == "subscribe" { // the hook is also called for an unsubscription, after which Receive returns
			s.poller.Pushed(true)
		}
	})
	for ctx.Err() == nil {
		cmd := s.client.B().Subscribe().Channel(s.prefix + ":wake").Build()
		_ = s.client.Receive(hooked, cmd, func(m rueidis.PubSubMessage) {
			id, _ := recordID(m.Message) // nobody waits for the ID of a message that names none
			s.poller.Wake(id)
		})
		s.poller.Pushed(false)
		select {
		case <-ctx.Done():
		case <-time.After(listenAgain):
		}
	}
}
