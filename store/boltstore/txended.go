package boltstore

import (
	"errors"
	"fmt"

	"github.com/redo-go/redo/store"
)

// A wish is what is asked of a transaction at its end.
type wish uint8

const (
	toCommit wish = iota
	toDiscard
	toRollBack
)

// endedByUser ends what its user has ended already, as store.ErrTxEnded has it. The hold still stands, so nobody comes in
// between. cause is what else speaks against the wish; an outcome that comes with one is kept only if it is valid.
func (t *transaction) endedByUser(w wish, o store.Outcome, cause error) error {
	remember := w == toDiscard && cause == nil // also of what was rolled back
	if !t.escaped && !remember {
		return rolledBackByUser(w, cause)
	}
	s := t.store
	tx, err := s.begin()
	if err != nil {
		t.failed = err
		return t.unrecorded(t.answer(err, t.escaped), cause)
	}
	// Only a commit of the user's can have come before.
	made := t.committed || t.escaped && tx.ID() > t.id
	if !made && !remember {
		return errors.Join(rolledBackByUser(w, cause), guarded(tx.Rollback))
	}
	nobodys := made && (w != toCommit || errors.Is(cause, store.ErrInvalid))
	if nobodys {
		o = store.UnknownOutcome()
	}
	rec, st, err := t.record(o, nobodys)
	if err != nil {
		return t.unrecorded(errors.Join(err, guarded(tx.Rollback)), cause)
	}
	err, unknown := s.carry(tx, &draft{writes: []write{{t.hold.key, rec}}}, st, s.commit)
	if err != nil {
		t.failed, t.unknown = err, unknown
		return t.unrecorded(t.answer(err, unknown || made), cause)
	}
	t.settled = true
	if !made {
		return nil
	}
	return t.unrecorded(nil, cause)
}

// rolledBackByUser is the answer when nothing was done and nothing is recorded. Rollback asked for no more.
func rolledBackByUser(w wish, cause error) error {
	if w == toRollBack {
		return nil
	}
	err := fmt.Errorf("boltstore: %w: it was rolled back, and nothing is recorded: %w", store.ErrTxEnded, store.ErrInvalid)
	return errors.Join(cause, err)
}

// unrecorded is the answer to a wish that could not be granted. What its user has tried to commit may be there.
func (t *transaction) unrecorded(err, cause error) error {
	if t.escaped {
		ended := fmt.Errorf("boltstore: %w: it was committed, or may have been: %w", store.ErrTxEnded, store.ErrUnknown)
		return errors.Join(cause, ended, err)
	}
	return errors.Join(cause, err)
}

// endedInUpdate is Update's answer when its function has ended the transaction.
func (t *transaction) endedInUpdate(err error) error {
	stats := t.tx.Stats()
	t.escaped = t.committed || stats.GetWrite() > 0
	if t.escaped {
		return t.unrecorded(nil, err)
	}
	return rolledBackByUser(toCommit, err)
}
