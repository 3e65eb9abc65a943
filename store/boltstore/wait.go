package boltstore

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/redo-go/redo/store"
)

// Wait implements [store.Waiter]. It also returns nil when the record expires, and an error wrapping
// store.ErrUnavailable when the store is closed meanwhile. A fence of zero, which the record of an InFlight verdict
// has if a transaction holds the ID, means that transaction: Wait then returns when the transaction has ended.
func (s *Store) Wait(ctx context.Context, id store.ID, fence uint64) error {
	key := string(appendKey(nil, id))
	for {
		// Listening comes before reading, so that no change is missed in between.
		changed := s.listen(key)
		r, c, err := s.find(ctx, id)
		pending := err == nil && r.State == store.StatePending && r.Fence == fence
		if err != nil && !errors.Is(err, store.ErrNotFound) || !pending && !c.holds(fence) {
			s.unlisten(key, changed)
			if errors.Is(err, store.ErrNotFound) {
				return nil
			}
			return err
		}
		if !pending {
			r = store.Record{} // the transaction's, which does not expire
		}
		err = pause(ctx, changed, r)
		s.unlisten(key, changed)
		if err != nil {
			return err
		}
	}
}

// pause returns nil when the record has changed or expired.
func pause(ctx context.Context, changed <-chan struct{}, r store.Record) error {
	var expired <-chan time.Time
	if !r.ExpiresAt.IsZero() {
		t := time.NewTimer(r.ExpiresAt.Sub(r.ReadAt))
		defer t.Stop()
		expired = t.C
	}
	select {
	case <-changed:
	case <-expired:
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}

func (s *Store) listen(key string) chan struct{} {
	ch := make(chan struct{})
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiters[key] = append(s.waiters[key], ch)
	return ch
}

func (s *Store) unlisten(key string, ch chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	left := slices.DeleteFunc(s.waiters[key], func(c chan struct{}) bool { return c == ch })
	if len(left) == 0 {
		delete(s.waiters, key)
		return
	}
	s.waiters[key] = left
}

// notify wakes the waiters of the record. The mutex is held.
func (s *Store) notify(key string) {
	if len(s.waiters) == 0 {
		return
	}
	for _, ch := range s.waiters[key] {
		close(ch)
	}
	delete(s.waiters, key)
}

func (s *Store) notifyAll() {
	for key := range s.waiters {
		s.notify(key)
	}
}
