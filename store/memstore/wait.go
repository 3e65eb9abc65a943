package memstore

import (
	"context"
	"errors"
	"time"

	"github.com/redo-go/redo/store"
)

// Wait implements store.Waiter. It returns nil on complete, release, take-over and expiry, also if the record expires
// without a call to the store. The end of a lease does not end it: the record is still pending under the same fence.
func (s *Store) Wait(ctx context.Context, id store.ID, fence uint64) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	for {
		ended, left, err := s.watch(id, fence)
		if ended == nil || err != nil {
			return err
		}
		again, err := s.sleep(ctx, ended, left)
		if !again {
			return err
		}
	}
}

// watch returns a channel that is closed when the record is no longer pending under fence, and how long the record
// lives unless its expiry is moved. The channel is nil if the record is not pending now.
func (s *Store) watch(id store.ID, fence uint64) (ended <-chan struct{}, left time.Duration, err error) {
	sh := s.shard(id)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	now := s.now()
	e, err := sh.pendingUnder(store.Lease{ID: id, Fence: fence}, now)
	switch {
	case errors.Is(err, store.ErrLost):
		return nil, 0, nil
	case err != nil:
		return nil, 0, err
	}
	if e.ended == nil {
		e.ended = make(chan struct{})
	}
	if e.rec.ExpiresAt.IsZero() {
		return e.ended, store.Forever, nil
	}
	return e.ended, e.rec.ExpiresAt.Sub(now), nil
}

// sleep waits for the first of its ends. It returns again if left has passed: the record has expired, unless an
// Extend has moved its expiry.
func (s *Store) sleep(ctx context.Context, ended <-chan struct{}, left time.Duration) (again bool, err error) {
	timer := time.NewTimer(left)
	defer timer.Stop()
	select {
	case <-ended:
		return false, nil
	case <-timer.C:
		return true, nil
	case <-s.closed:
		return false, errClosed
	case <-ctx.Done():
		return false, ctx.Err()
	}
}
