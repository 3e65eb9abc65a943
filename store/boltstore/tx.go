package boltstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/redo-go/redo/store"
	"go.etcd.io/bbolt"
)

// Begin implements [store.TxStore]. A verdict other than Acquired and TakenOver costs no commit and waits for no
// transaction. The others wait, as long as the context allows, until those who came first have written the file.
func (s *Store) Begin(ctx context.Context, c store.Claim) (store.Tx[*bbolt.Tx], store.Grant, error) {
	if err := c.Validate(); err != nil {
		return nil, store.Grant{}, fmt.Errorf("boltstore: %w", err)
	}
	c.Lease = 0 // the transaction excludes
	for {
		h, g, err := s.hold(ctx, c)
		if err != nil || h == nil {
			return nil, g, err
		}
		t, err := s.start(ctx, h)
		switch {
		case err == nil:
			return t, g, nil
		case !errors.Is(err, errSuspect):
			return nil, store.Grant{}, err
		}
	}
}

// A transaction is an open bbolt transaction and the hold of its record. It has the turn.
type transaction struct {
	store *Store
	hold  *hold
	tx    *bbolt.Tx // the caller's
	id    int

	over    bool // somebody ends it or has ended it; guarded by the store's mutex
	escaped bool // its caller has committed it, or tried to and got as far as writing

	committed bool  // tx was committed, by whomever
	settled   bool  // another transaction has settled the record
	failed    error // of a commit
	unknown   bool  // that may have reached the disk
	raised    any   // a panic of the caller's in tx.OnCommit
}

// Tx implements [store.Tx].
func (t *transaction) Tx() *bbolt.Tx { return t.tx }

// Commit implements [store.Tx].
func (t *transaction) Commit(ctx context.Context, o store.Outcome) error {
	return t.settle(ctx, o, toCommit)
}

// Discard implements [store.Tx].
func (t *transaction) Discard(ctx context.Context, o store.Outcome) error {
	return t.settle(ctx, o, toDiscard)
}

// Rollback implements [store.Tx].
func (t *transaction) Rollback(context.Context) error {
	if !t.end() {
		return nil
	}
	defer t.leave()
	if t.tx.DB() == nil {
		return t.endedByUser(toRollBack, store.Outcome{}, nil)
	}
	return t.undo()
}

// settle ends the transaction with the outcome: together with what was written through tx, or alone.
func (t *transaction) settle(ctx context.Context, o store.Outcome, w wish) error {
	if !t.end() {
		return fmt.Errorf("boltstore: %w: the transaction is over", store.ErrInvalid)
	}
	defer t.leave()
	err := cmp.Or(checkOutcome(o), ctx.Err())
	if t.tx.DB() == nil {
		return t.endedByUser(w, o, err)
	}
	var rec *record
	var st state
	if err == nil {
		rec, st, err = t.record(o, false)
	}
	if err != nil {
		return errors.Join(err, t.undo())
	}
	d := &draft{writes: []write{{t.hold.key, rec}}}
	if w == toDiscard {
		return t.settleAlone(d, st)
	}
	if err := t.intact(); err != nil {
		return errors.Join(err, t.undo())
	}
	err, unknown := t.store.carry(t.tx, d, st, t.commit)
	t.committed, t.failed, t.unknown = err == nil, err, unknown
	if err != nil {
		return t.answer(err, unknown)
	}
	return nil
}

// settleAlone undoes the caller's transaction and commits the record in another. The hold still stands, so nobody comes in
// between.
func (t *transaction) settleAlone(d *draft, st state) error {
	if err := t.undo(); err != nil {
		return err
	}
	err, unknown := t.store.write(d, st)
	if err != nil {
		t.failed, t.unknown = err, unknown
		return t.answer(err, unknown)
	}
	t.settled = true
	return nil
}

// record makes the record as it shall stand, under a new fence if it is nobody's. What the user has committed himself is
// settled even if it has expired or the store is being closed: the effect is made.
func (t *transaction) record(o store.Outcome, nobodys bool) (*record, state, error) {
	sum := checksum(o.Result)
	s := t.store
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.usable(); err != nil && (s.broken != nil || !t.escaped) {
		return nil, state{}, err
	}
	now, standing := s.clock.now(), t.hold.taken
	if !t.escaped {
		standing = alive(standing, now) // it may have expired meanwhile
	}
	rec, err := complete(standing, t.hold.taken.fence, o, o.Result, sum, now)
	if err == nil && nobodys {
		s.fence++
		rec.fence = s.fence
	}
	return rec, s.state(), err
}

// end takes the right to end the transaction, which is given once.
func (t *transaction) end() bool {
	t.store.mu.Lock()
	defer t.store.mu.Unlock()
	if t.over {
		return false
	}
	t.over = true
	stats := t.tx.Stats()
	t.escaped = t.committed || t.tx.DB() == nil && stats.GetWrite() > 0
	return true
}

// leave ends the hold and gives up the turn. It runs deferred, so that not even a panic of the caller's in tx.OnCommit
// keeps them.
func (t *transaction) leave() {
	s := t.store
	s.mu.Lock()
	if t.committed {
		s.stats.Commits++
	}
	if t.settled {
		s.stats.Commits++
	}
	if t.failed != nil {
		s.stats.Failures++
		s.failures++
	} else if t.committed || t.settled {
		s.suspect, s.failures = false, 0
	}
	s.suspect = s.suspect || t.unknown || !t.settled && !t.committed && t.escaped
	if errors.Is(t.failed, ErrCorrupt) {
		s.breakDown(t.failed)
	}
	s.open = nil
	s.drop(t.hold)
	s.mu.Unlock()
	<-s.turn
	if t.raised != nil {
		panic(t.raised)
	}
}

// answer is the error of a commit that has failed.
func (t *transaction) answer(err error, unknown bool) error { return t.store.commitError(err, unknown) }

// undo rolls back the caller's transaction, unless it is over already.
func (t *transaction) undo() error {
	if t.tx.DB() == nil {
		return nil
	}
	stats := t.tx.Stats()
	err := guarded(t.tx.Rollback)
	switch {
	case errors.Is(err, ErrCorrupt):
		t.store.stuck = true
	case err == nil && stats.GetRebalance()+stats.GetSpill() > 0:
		// Only a commit does these, and one that ends leaves no transaction.
		err = corrupt("a commit of the caller's broke off in a panic")
	}
	if err != nil {
		t.failed = err
	}
	return explain(t.store.path, err)
}

// intact reports what the caller has done to this package's bucket.
func (t *transaction) intact() error {
	err := guarded(func() error {
		b, err := open(t.tx)
		if err != nil || !isFormat(b.root.Get(formatKey)) {
			return fmt.Errorf("boltstore: %w: the transaction has changed the bucket %q, nothing is committed", store.ErrInvalid, rootName)
		}
		return nil
	})
	if errors.Is(err, ErrCorrupt) {
		t.failed = err
		return explain(t.store.path, err)
	}
	return err
}

// commit commits the caller's transaction. When bbolt has committed it and a function of the caller's then panics, that is
// kept for later: the record is settled.
func (t *transaction) commit(tx *bbolt.Tx) (err error) {
	defer func() {
		if t.committed {
			t.raised = recover() // with err nil
		}
	}()
	return t.store.commit(tx)
}
