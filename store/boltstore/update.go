package boltstore

import (
	"context"
	"errors"

	"go.etcd.io/bbolt"
)

// Update runs f in a write transaction, for the application's own buckets, and commits it: what f wrote is on disk when
// Update returns nil. It waits, as long as the context allows, until those who came first have written the file, and the
// others wait for f, so f must be short. It must not call the store, end the transaction, or touch the bucket "redo".
//
// With an error of f nothing is written, and it is returned as it is; a panic of f's goes on after the rollback. An error
// of the commit wraps store.ErrUnavailable when nothing was written, and store.ErrUnknown when it may have been. Close
// waits for f.
func (s *Store) Update(ctx context.Context, f func(tx *bbolt.Tx) error) error {
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		t, err := s.start(ctx, nil)
		switch {
		case err == nil:
			return t.update(f)
		case !errors.Is(err, errSuspect):
			return err
		}
		if err := s.certain(ctx); err != nil {
			return err
		}
	}
}

// update runs f and commits what it wrote. No record is written with it, only the state, which every commit writes.
func (t *transaction) update(f func(tx *bbolt.Tx) error) error {
	defer t.leave()
	returned := false
	defer func() {
		if !returned {
			_ = t.undo()
		}
	}()
	err := f(t.tx)
	returned = true
	switch {
	case t.tx.DB() == nil:
		return t.endedInUpdate(err)
	case err != nil:
		if undone := t.undo(); undone != nil {
			return errors.Join(err, explain(t.store.path, undone))
		}
		return err
	}
	if err := t.intact(); err != nil {
		return errors.Join(err, t.undo())
	}
	s := t.store
	s.mu.Lock()
	st := s.state()
	s.mu.Unlock()
	err, unknown := s.carry(t.tx, &draft{}, st, t.commit)
	t.committed, t.failed, t.unknown = err == nil, err, unknown
	if err != nil {
		return t.answer(err, unknown)
	}
	return nil
}
