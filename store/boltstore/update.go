package boltstore

import (
	"context"
	"errors"
)

// Update runs f in a write transaction, for the application's own buckets, and commits it. When Update returns nil,
// f's writes are on disk. It waits for earlier writers of the file, as long as the context allows. Other writers wait
// for f, so f must be short. f must not call the store.
//
// If f returns an error or panics, nothing is written; the error is returned as it is, and the panic continues. An
// error of the commit wraps store.ErrUnavailable if nothing was written, and store.ErrUnknown if something may have
// been. Close waits for f.
func (s *Store) Update(ctx context.Context, f func(tx *Tx) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	t, err := s.start(ctx, nil)
	if err != nil {
		return err
	}
	panics := true
	defer func() {
		if panics {
			_ = t.finish(ctx, t.undo)
		}
	}()
	err = f(t.tx)
	panics = false
	if err == nil {
		err = t.tx.refused()
	}
	ended := t.finish(ctx, func() error {
		if err != nil {
			return t.undo()
		}
		s.mu.Lock()
		g := s.stamped(newGroup())
		s.mu.Unlock()
		return s.carry(t.tx.tx, g)
	})
	switch {
	case ended != nil:
		return errors.Join(err, ended)
	case err == nil:
		t.tx.committed()
	}
	return err
}
