package redisstore

import (
	"context"
	"sync"
	"time"

	"github.com/redis/rueidis"
	"github.com/redo-go/redo/store"
)

// Waiters poll at these intervals. With a subscription, a message can get lost between two nodes of a cluster. Without
// one there are no messages.
const (
	pollSubscribed   = 10 * time.Second
	pollUnsubscribed = time.Second
)

// Wait implements store.Waiter. All waiters of a Store share one subscription, which begins with the first Wait and
// lasts until Close. A transition is published only if the record has waiters.
func (s *Store) Wait(ctx context.Context, id store.ID, fence uint64) error {
	if err := s.ready(ctx); err != nil {
		return err
	}
	keys := s.layout.Load().record(id)
	// The waiter joins before it reads, so that it misses no message in between.
	w, ok := s.waits.join(s, keys[0])
	if !ok {
		return errClosed
	}
	defer s.waits.leave(keys[0], w)
	for {
		left, err := s.watch(ctx, keys, fence)
		if left == 0 || err != nil {
			return err
		}
		if err := s.pause(ctx, w, min(left, s.waits.interval())); err != nil {
			return err
		}
	}
}

// watch marks the record as one with waiters. It returns how long the record lives unless its owner moves its expiry,
// or zero if it is not pending under the fence.
func (s *Store) watch(ctx context.Context, keys [2]string, fence uint64) (time.Duration, error) {
	got := s.run(ctx, watchScript, keys[:], []string{fenceText(fence)})
	if word, err := got.ToString(); err == nil && word == "lost" {
		return 0, nil
	}
	ms, err := got.AsInt64()
	switch {
	case err != nil:
		return 0, readFailed(ctx, err)
	case ms < 0 || ms >= int64(store.Forever/time.Millisecond):
		return store.Forever, nil
	}
	return time.Duration(ms+1) * time.Millisecond, nil // after its last millisecond
}

// pause waits for a message, at most for d.
func (s *Store) pause(ctx context.Context, w waiter, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-w:
	case <-timer.C:
	case <-s.closed:
		return errClosed
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}

// A waiter is one call of Wait. It receives a value when its record may have changed.
type waiter chan struct{}

func (w waiter) notify() {
	select {
	case w <- struct{}{}:
	default: // it has a value already
	}
}

// waits holds the calls of Wait by the record's key, and the subscription that serves them.
type waits struct {
	mu         sync.Mutex
	byKey      map[string]map[waiter]struct{}
	closed     bool
	stop       context.CancelFunc // nil: there is no subscription yet
	subscribed bool
	listener   sync.WaitGroup
}

func (ws *waits) join(s *Store, key string) (waiter, bool) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if ws.closed {
		return nil, false
	}
	if ws.stop == nil {
		ctx, stop := context.WithCancel(context.Background())
		ws.stop = stop
		ws.byKey = map[string]map[waiter]struct{}{}
		ws.listener.Go(func() { s.listen(ctx) })
	}
	if ws.byKey[key] == nil {
		ws.byKey[key] = map[waiter]struct{}{}
	}
	w := make(waiter, 1)
	ws.byKey[key][w] = struct{}{}
	return w, true
}

func (ws *waits) leave(key string, w waiter) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	delete(ws.byKey[key], w)
	if len(ws.byKey[key]) == 0 {
		delete(ws.byKey, key)
	}
}

// close ends the subscription. It returns false if it was called before.
func (ws *waits) close() bool {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if ws.closed {
		return false
	}
	ws.closed = true
	if ws.stop != nil {
		ws.stop()
	}
	return true
}

func (ws *waits) interval() time.Duration {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if ws.subscribed {
		return pollSubscribed
	}
	return pollUnsubscribed
}

func (ws *waits) notify(key string) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	for w := range ws.byKey[key] {
		w.notify()
	}
}

// set notes whether there is a subscription, and notifies all waiters: messages from before it began are lost.
func (ws *waits) set(subscribed bool) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	ws.subscribed = subscribed
	for _, some := range ws.byKey {
		for w := range some {
			w.notify()
		}
	}
}

// listen keeps the subscription until the context ends.
func (s *Store) listen(ctx context.Context) {
	hooked := rueidis.WithOnSubscriptionHook(ctx, func(sub rueidis.PubSubSubscription) {
		if sub.Kind == "subscribe" {
			s.waits.set(true)
		}
	})
	for ctx.Err() == nil {
		cmd := s.client.B().Subscribe().Channel(s.prefix + ":wake").Build()
		_ = s.client.Receive(hooked, cmd, func(m rueidis.PubSubMessage) { s.waits.notify(m.Message) })
		s.waits.set(false)
		select {
		case <-ctx.Done():
		case <-time.After(pollUnsubscribed):
		}
	}
}
