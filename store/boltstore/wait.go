package boltstore

import (
	"context"

	"github.com/redo-go/redo/internal/envelope"
	"github.com/redo-go/redo/store"
)

// Wait implements [store.Waiter]. It also returns nil when the record expires, and an error wrapping
// store.ErrUnavailable when the store is closed meanwhile. A fence of zero, which the record of an InFlight verdict
// has if a transaction holds the ID, means that transaction: Wait then returns when the transaction has ended.
func (s *Store) Wait(ctx context.Context, id store.ID, fence uint64) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	err, c := s.usable(), s.claims[string(envelope.AppendKey(nil, id))]
	s.waiting++
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		s.waiting--
		s.mu.Unlock()
	}()
	switch {
	case err != nil:
		return err
	case c.holds(fence):
		select {
		case <-c.ended:
		case <-s.quit:
			return s.ready()
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return s.poller.Wait(ctx, id, fence)
}

// notify wakes the waiters of the record. The mutex is held.
func (s *Store) notify(key string) {
	if s.waiting == 0 {
		return
	}
	if id, err := envelope.ParseKey([]byte(key)); err == nil {
		s.poller.Wake(id)
	}
}
