package boltstore

import (
	"context"
	"fmt"
	"time"

	"github.com/redo-go/redo/internal/envelope"
	"github.com/redo-go/redo/store"
)

// A txClaim holds an ID for a transaction, from before the transaction gets the write lock until it has ended. The
// record does not change meanwhile, so the overlay has no row for it.
type txClaim struct {
	claim  store.Claim
	key    string
	before *record // as the file has it and others read it; nil: absent
	owned  *record // as the transaction reserved it
	shown  *record // to other claims: a pending record with a live lease and no fence
	ended  chan struct{}
}

// uncommitted reports whether the record is a txClaim's shown. Every other record has a fence.
func (r *record) uncommitted() bool { return r.Fence == 0 }

// holds reports whether a Wait for the record under fence waits for the transaction. The record of an InFlight
// verdict has no fence.
func (c *txClaim) holds(fence uint64) bool {
	return c != nil && (fence == 0 || fence == c.owned.Fence)
}

// claim reserves the ID for a transaction. The txClaim is nil if the verdict is not Owned.
func (s *Store) claim(ctx context.Context, c store.Claim) (t *txClaim, g store.Grant, err error) {
	for {
		var unsaved *group // has to be on disk before the transaction begins
		var seen *record
		var at time.Time
		err = s.transition(ctx, c.ID, mode{claims: true}, func(cur *record, now time.Time) (*record, bool, error) {
			v, next := reserve(cur, c, now, s.fence+1)
			if g.Verdict, seen, at = v, cur, now; next == nil {
				return nil, false, nil
			}
			key := string(envelope.AppendKey(nil, c.ID))
			switch r := s.overlay[key]; {
			case r != nil: // the group of the row would be committed after the transaction, over what that has written
				unsaved = r.in
			case s.fence >= s.fences: // a commit reserves more
				unsaved = s.current
			default:
				s.fence++
				next.epoch = s.epoch
				shown := &record{Record: store.Record{
					Fingerprint: c.Fingerprint, State: store.StatePending, LeaseUntil: envelope.LastInstant,
				}}
				t = &txClaim{claim: c, key: key, before: cur, owned: next, shown: shown, ended: make(chan struct{})}
				s.claims[key], seen = t, next
				return nil, false, nil
			}
			unsaved.due = true
			return nil, false, nil
		})
		if err != nil {
			return nil, store.Grant{}, err
		}
		if unsaved == nil {
			return t, seen.grant(g.Verdict, c.ID, at), nil
		}
		s.signal()
		if err := wait(ctx, unsaved); err != nil {
			return nil, store.Grant{}, err
		}
		if unsaved.err != nil { // not to be wrapped: Begin has changed nothing
			return nil, store.Grant{}, fmt.Errorf("boltstore: %q: a commit before the Begin of %v failed: %s: %w",
				s.path, c.ID, unsaved.err.Error(), store.ErrUnavailable)
		}
	}
}

// release ends the claim, if it is not nil. The mutex is held.
func (s *Store) release(c *txClaim) {
	if c == nil {
		return
	}
	delete(s.claims, c.key)
	close(c.ended)
	s.gen++ // a concurrent reader of the file reads the record again
	s.notify(c.key)
}
