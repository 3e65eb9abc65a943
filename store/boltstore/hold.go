package boltstore

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/redo-go/redo/store"
)

// A hold keeps an ID for a transaction, from before it waits for its turn until it is over. While it stands nobody
// else changes the record, so the overlay has no cell for it and what the file has is what the hold remembers.
type hold struct {
	key    string
	stands *record // as the file has it: others still see it. Nil: absent
	taken  *record // as the transaction reserved it: nobody sees it yet
	shadow *record // what others who claim the ID meet instead
	over   chan struct{}
}

// newHold makes the hold over what stands.
func newHold(key []byte, stands, taken *record) *hold {
	return &hold{
		key:    string(key),
		stands: stands,
		taken:  taken,
		shadow: &record{fingerprint: taken.fingerprint, state: store.StatePending, lease: math.MaxInt64},
		over:   make(chan struct{}),
	}
}

// unseen reports whether the record is a hold's shadow: no other has the fence zero.
func (r *record) unseen() bool { return r.fence == 0 }

// waits reports whether a Wait for the record under fence has to wait for the transaction. Who was told InFlight
// got no fence.
func (h *hold) waits(fence uint64) bool {
	return h != nil && (fence == 0 || fence == h.taken.fence)
}

// hold reserves the ID for a transaction. The hold is nil when the verdict is not Owned.
func (s *Store) hold(ctx context.Context, c store.Claim) (h *hold, g store.Grant, err error) {
	for {
		var unsaved *group
		var stands *record
		var at int64
		err = s.transition(ctx, c.ID, claiming, func(cur *record, now int64) (change, error) {
			h, unsaved, at = nil, nil, now
			v, next := reserve(cur, c, nil, now, s.fence+1)
			g.Verdict, stands = v, cur
			if next == nil {
				return change{}, nil
			}
			stands = next
			key := appendKey(nil, c.ID)
			if cell := s.overlay[string(key)]; cell != nil {
				// The group that carries it would be committed after the transaction, over what that has written.
				unsaved = cell.in
				unsaved.due = true
				return change{}, nil
			}
			if s.fence >= s.fences {
				unsaved = s.current // whose commit reserves more
				unsaved.due = true
				return change{}, nil
			}
			s.fence++
			next.fence, next.epoch = s.fence, s.epoch
			h = newHold(key, cur, next)
			s.held[h.key] = h
			return change{}, nil
		})
		if err != nil {
			return nil, store.Grant{}, err
		}
		if unsaved == nil {
			g.Record = stands.export(c.ID, at)
			if h != nil {
				g.Lease = g.Record.Lease()
			}
			return h, g, nil
		}
		s.signal()
		if err := wait(ctx, unsaved); err != nil {
			return nil, store.Grant{}, err
		}
		if unsaved.err != nil {
			return nil, store.Grant{}, fmt.Errorf("boltstore: %q: what has to be on disk before %v is begun can't be committed: %s: %w", s.path, c.ID, unsaved.err.Error(), store.ErrUnavailable)
		}
	}
}

// drop ends the hold, if there is one. The mutex is held.
func (s *Store) drop(h *hold) {
	if h == nil {
		return
	}
	delete(s.held, h.key)
	close(h.over)
	// Who has read the record from the file meanwhile reads it again.
	s.gen++
	s.notify(h.key)
}

// outlast returns when the hold or the store is over, or the context's error when that ends first.
func (s *Store) outlast(ctx context.Context, h *hold) error {
	select {
	case <-h.over:
	case <-s.quit:
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}

// errSuspect: the file may show what is not on disk.
var errSuspect = errors.New("boltstore: the last commit is unknown")

// start opens the transaction of a hold when its turn comes, or one of Update's without a hold, which nobody but Update
// ends. With an error the hold is dropped.
func (s *Store) start(ctx context.Context, h *hold) (t *transaction, err error) {
	mine := false
	defer func() {
		if t != nil {
			return
		}
		s.mu.Lock()
		s.drop(h)
		s.mu.Unlock()
		if mine {
			<-s.turn
		}
	}()
	select {
	case s.turn <- struct{}{}:
		mine = true
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-s.quit:
		return nil, s.ready()
	}
	next := &transaction{store: s, hold: h, over: h == nil}
	if err := s.enter(next); err != nil {
		return nil, err
	}
	tx, err := s.begin()
	if err != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.open = nil
		if errors.Is(err, ErrCorrupt) {
			s.breakDown(err)
		}
		return nil, explain(s.path, err)
	}
	next.tx, next.id = tx, tx.ID()
	tx.OnCommit(func() { next.committed = true })
	return next, nil
}

// enter makes the transaction the open one. The turn is held.
func (s *Store) enter(t *transaction) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.usable(); err != nil {
		return err
	}
	if s.suspect {
		return errSuspect
	}
	s.open = t
	return nil
}
