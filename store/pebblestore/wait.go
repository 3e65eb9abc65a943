package pebblestore

import (
	"context"

	"github.com/redo-go/redo/store"
)

// Wait implements [store.Waiter]. It also returns nil when the record expires, and an error wrapping
// store.ErrUnavailable when the store is closed meanwhile.
func (s *Store) Wait(ctx context.Context, id store.ID, fence uint64) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	err := s.usable()
	s.waiting++
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		s.waiting--
		s.mu.Unlock()
	}()
	if err != nil {
		return err
	}
	return s.poller.Wait(ctx, id, fence)
}

// notify wakes the waiters of the record. The mutex is held.
func (s *Store) notify(key string) {
	if s.waiting == 0 {
		return
	}
	if id, err := parseKey([]byte(key)); err == nil {
		s.poller.Wake(id)
	}
}
