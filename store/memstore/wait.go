package memstore

import (
	"context"

	"github.com/redo-go/redo/store"
)

// Wait implements store.Waiter. It returns nil on complete, release, take-over and expiry, also if the record expires
// without a call to the store. The end of a lease does not end it: the record is still pending under the same fence.
func (s *Store) Wait(ctx context.Context, id store.ID, fence uint64) error {
	s.waiting.Add(1)
	defer s.waiting.Add(-1)
	return s.poller.Wait(ctx, id, fence)
}

// wake ends each Wait for the record as it was before.
func (s *Store) wake(id store.ID) {
	if s.waiting.Load() > 0 {
		s.poller.Wake(id)
	}
}
