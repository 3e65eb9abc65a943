package boltstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redo-go/redo/store"
)

// Begin implements [store.TxStore]. A verdict other than Acquired and TakenOver costs no commit and waits for no
// transaction. The others wait, as long as the context allows, for earlier writers of the file.
func (s *Store) Begin(ctx context.Context, c store.Claim) (store.Tx[*Tx], store.Grant, error) {
	if err := c.Validate(); err != nil {
		return nil, store.Grant{}, err
	}
	c.Lease, c.Owner, c.Meta = 0, "", nil // the transaction excludes others
	claim, g, err := s.claim(ctx, c)
	if err != nil || claim == nil {
		return nil, g, err
	}
	t, err := s.start(ctx, claim)
	if err != nil {
		return nil, store.Grant{}, err
	}
	return t, g, nil
}

// A transaction is an open bbolt transaction. It holds the write lock.
type transaction struct {
	store *Store
	claim *txClaim // nil in Update
	tx    *Tx
	over  bool // guarded by the store's mutex
}

// start waits for the write lock and opens the transaction of a claim, or that of an Update if the claim is nil. If it
// fails, the claim is released.
func (s *Store) start(ctx context.Context, c *txClaim) (*transaction, error) {
	if err := s.lockFile(ctx); err != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.release(c)
		return nil, err
	}
	t := &transaction{store: s, claim: c, over: c == nil}
	if err := t.begin(); err != nil {
		t.leave()
		return nil, err
	}
	return t, nil
}

// lockFile takes the write lock. The caller returns it with unlockFile.
func (s *Store) lockFile(ctx context.Context) error {
	select {
	case s.writing <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-s.quit:
		return s.ready()
	}
}

func (s *Store) unlockFile() { <-s.writing }

// begin opens bbolt's transaction.
func (t *transaction) begin() error {
	s := t.store
	s.mu.Lock()
	if err := s.usable(); err != nil {
		s.mu.Unlock()
		return err
	}
	s.open = t
	suspect, g := s.suspect, s.stamped(newGroup())
	s.mu.Unlock()
	if suspect { // a commit that succeeds makes certain what the file holds
		if err := s.write(g); err != nil {
			return fmt.Errorf("boltstore: %q: %s: %w", s.path, err.Error(), store.ErrUnavailable)
		}
	}
	tx, err := s.begin()
	if err != nil {
		return t.broken(err)
	}
	t.tx = &Tx{tx: tx}
	return nil
}

// Tx implements [store.Tx].
func (t *transaction) Tx() *Tx { return t.tx }

// Commit implements [store.Tx].
func (t *transaction) Commit(ctx context.Context, o store.Outcome) error {
	err := t.settle(ctx, o, false)
	if err == nil {
		t.tx.committed()
	}
	return err
}

// Discard implements [store.Tx].
func (t *transaction) Discard(ctx context.Context, o store.Outcome) error {
	return t.settle(ctx, o, true)
}

// Rollback implements [store.Tx].
func (t *transaction) Rollback(ctx context.Context) error {
	if !t.end() {
		return nil
	}
	return t.finish(ctx, t.undo)
}

// settle ends the transaction with the outcome. It commits the outcome together with the writes through tx, or alone
// if discard is set.
func (t *transaction) settle(ctx context.Context, o store.Outcome, discard bool) error {
	if !t.end() {
		return fmt.Errorf("boltstore: %w: the transaction is over", store.ErrInvalid)
	}
	return t.finish(ctx, func() error {
		g, err := t.outcome(ctx, o)
		switch {
		case err != nil:
			return errors.Join(err, t.undo())
		case !discard:
			return t.store.carry(t.tx.tx, g)
		}
		if err := t.undo(); err != nil {
			return err
		}
		return t.store.write(g)
	})
}

// outcome returns the group of the settled record.
func (t *transaction) outcome(ctx context.Context, o store.Outcome) (*group, error) {
	if err := cmp.Or(o.ValidateUpTo(maxResult), ctx.Err(), t.tx.refused()); err != nil {
		return nil, err
	}
	sum := checksum(o.Result)
	s := t.store
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.usable(); err != nil {
		return nil, err
	}
	now, rec := time.Unix(0, s.clock.Now()), *t.claim.owned
	if rec.Expired(now) { // since Begin
		return nil, fmt.Errorf("boltstore: %w", store.ErrLost)
	}
	rec.settle(o, sum, now)
	return s.stamped(newGroup(&row{key: t.claim.key, rec: &rec})), nil
}

// end takes the right to end the transaction, which one caller gets.
func (t *transaction) end() bool {
	t.store.mu.Lock()
	defer t.store.mu.Unlock()
	first := !t.over
	t.over = true
	return first
}

// finish runs how, which ends bbolt's transaction, and releases the claim and the write lock. If the user has ended
// bbolt's transaction, finish settles the record instead.
func (t *transaction) finish(ctx context.Context, how func() error) error {
	if !t.tx.ended() {
		defer t.leave()
		return how()
	}
	s := t.store
	s.mu.Lock()
	s.suspect = true // a commit of the user may have failed late
	s.mu.Unlock()
	t.leave()
	if t.claim == nil {
		return fmt.Errorf("boltstore: %w: %w", store.ErrTxEnded, store.ErrUnknown)
	}
	return fmt.Errorf("boltstore: %w", store.SettleEnded(ctx, s, t.claim.claim))
}

// leave releases the claim and the write lock.
func (t *transaction) leave() {
	s := t.store
	s.mu.Lock()
	s.open = nil
	s.release(t.claim)
	s.mu.Unlock()
	s.unlockFile()
}

// undo rolls bbolt's transaction back.
func (t *transaction) undo() error {
	err := guarded(t.tx.tx.Rollback)
	if err != nil {
		t.store.stuck = true
	}
	return t.broken(err)
}

// broken returns the error for the caller, and ends the store if bbolt has panicked.
func (t *transaction) broken(err error) error {
	s := t.store
	if errors.Is(err, ErrCorrupt) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.breakDown(err)
	}
	return explain(s.path, err)
}
