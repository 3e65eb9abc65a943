package redisstore

import (
	"context"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/rueidis"
	"github.com/redo-go/redo/store"
)

// How often a waiter looks by itself. Messages get lost only with a connection, after which every waiter looks, or
// between two nodes of a cluster; without a subscription there are none.
const (
	lookAfter        = 10 * time.Second
	lookUnsubscribed = time.Second
)

// Wait implements store.Waiter. It returns nil on complete, release, take-over and expiry. All waiters of a Store share
// one subscription, which is made at the first Wait and kept until Close; a transition publishes only where somebody
// waits.
func (s *Store) Wait(ctx context.Context, id store.ID, fence uint64) error {
	if err := s.ready(ctx); err != nil {
		return err
	}
	keys, _ := s.layout.record(id)
	// Listening comes before looking, so that no end is missed in between.
	w, ok := s.waits.join(s, keys[0], fence)
	if !ok {
		return errClosed
	}
	defer s.waits.leave(w)
	for {
		left, err := s.watch(ctx, keys[0], fence)
		if left == 0 || err != nil {
			return err
		}
		again, err := s.pause(ctx, w, min(left, s.waits.patience()))
		if !again {
			return err
		}
	}
}

// watch returns how long the record lives if nothing moves its expiry, zero when it is not pending under the fence.
func (s *Store) watch(ctx context.Context, key string, fence uint64) (time.Duration, error) {
	word, err := s.run(ctx, watchScript, []string{key}, []string{fenceText(fence)}).ToString()
	switch {
	case err != nil:
		return 0, readFailed(ctx, err)
	case word == "lost":
		return 0, nil
	case word == "forever":
		return store.Forever, nil
	}
	n, err := strconv.ParseInt(word, 10, 64)
	if err != nil || n < 1 {
		return 0, malformed("the time %q", word)
	}
	if n > int64(store.Forever/time.Microsecond) {
		return store.Forever, nil
	}
	return time.Duration(n) * time.Microsecond, nil
}

// pause waits for the first of its ends. Again says that it is time to look.
func (s *Store) pause(ctx context.Context, w *wait, d time.Duration) (again bool, err error) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-w.ended:
		return false, nil
	case <-w.look:
		return true, nil
	case <-timer.C:
		return true, nil
	case <-s.closed:
		return false, errClosed
	case <-ctx.Done():
		return false, ctx.Err()
	}
}

// A wait is one call of Wait.
type wait struct {
	key   string
	fence uint64
	ended chan struct{} // closed when a message says so
	look  chan struct{} // holds one
}

// waits are the calls of Wait, by the record's key, and the one subscription that serves them.
type waits struct {
	mu         sync.Mutex
	byKey      map[string]map[*wait]struct{}
	closed     bool
	stop       context.CancelFunc // nil: nobody listens yet
	subscribed bool
	listener   sync.WaitGroup
}

func (ws *waits) init() { ws.byKey = map[string]map[*wait]struct{}{} }

func (ws *waits) join(s *Store, key string, fence uint64) (*wait, bool) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if ws.closed {
		return nil, false
	}
	if ws.stop == nil {
		ctx, stop := context.WithCancel(context.Background())
		ws.stop = stop
		ws.listener.Go(func() { s.listen(ctx) })
	}
	w := &wait{key: key, fence: fence, ended: make(chan struct{}), look: make(chan struct{}, 1)}
	if ws.byKey[key] == nil {
		ws.byKey[key] = map[*wait]struct{}{}
	}
	ws.byKey[key][w] = struct{}{}
	return w, true
}

func (ws *waits) leave(w *wait) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	delete(ws.byKey[w.key], w)
	if len(ws.byKey[w.key]) == 0 {
		delete(ws.byKey, w.key)
	}
}

// close ends the subscription, and reports whether it was the first to.
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

func (ws *waits) patience() time.Duration {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if ws.subscribed {
		return lookAfter
	}
	return lookUnsubscribed
}

// wake ends the waits that a message is for: "fence key".
func (ws *waits) wake(message string) {
	fence, key, _ := strings.Cut(message, " ")
	ws.mu.Lock()
	defer ws.mu.Unlock()
	for w := range ws.byKey[key] {
		if fenceText(w.fence) == fence {
			close(w.ended)
			delete(ws.byKey[key], w)
		}
	}
}

// lookAll lets every waiter look: what was published before the subscription stood is gone.
func (ws *waits) lookAll(subscribed bool) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	ws.subscribed = subscribed
	for _, some := range ws.byKey {
		for w := range some {
			select {
			case w.look <- struct{}{}:
			default:
			}
		}
	}
}

// listen keeps the subscription until the context ends.
func (s *Store) listen(ctx context.Context) {
	subscribed := rueidis.WithOnSubscriptionHook(ctx, func(sub rueidis.PubSubSubscription) {
		if sub.Kind == "subscribe" {
			s.waits.lookAll(true)
		}
	})
	for ctx.Err() == nil {
		cmd := s.client.B().Subscribe().Channel(s.layout.channel).Build()
		_ = s.client.Receive(subscribed, cmd, func(m rueidis.PubSubMessage) { s.waits.wake(m.Message) })
		// Whyever it ended, waiters look by themselves until it stands again.
		s.waits.lookAll(false)
		select {
		case <-ctx.Done():
		case <-time.After(lookUnsubscribed):
		}
	}
}
