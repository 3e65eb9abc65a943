package boltstore

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/redo-go/redo/store"
	"go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"
)

// write commits the draft in a transaction of its own. An error that is not unknown means that the file is as it was.
// The turn is held.
func (s *Store) write(d *draft, st state) (err error, unknown bool) {
	tx, err := s.begin()
	if err != nil {
		return err, false
	}
	return s.carry(tx, d, st, s.commit)
}

// begin begins a write transaction of bbolt's. The turn is held.
func (s *Store) begin() (tx *bbolt.Tx, err error) {
	err = guarded(func() (err error) {
		tx, err = s.db.Begin(true)
		return err
	})
	if errors.Is(err, ErrCorrupt) {
		s.stuck = true
	}
	return tx, err
}

// carry puts the draft into the transaction and commits it. The transaction is over in any case.
func (s *Store) carry(tx *bbolt.Tx, d *draft, st state, commit func(*bbolt.Tx) error) (err error, unknown bool) {
	err = guarded(func() (err error) {
		if err = d.apply(tx, st); err != nil {
			return errors.Join(err, tx.Rollback())
		}
		id := tx.ID()
		if err = commit(tx); err != nil {
			unknown = s.reached(tx, id, err)
		}
		return err
	})
	if errors.Is(err, ErrCorrupt) {
		// A panic comes before bbolt writes its meta page, so nothing was changed. Closing needs the lock.
		s.stuck = errors.Is(guarded(tx.Rollback), ErrCorrupt)
	}
	if err == nil {
		s.reserved(st)
	}
	return err, unknown
}

// reached reports whether a failed commit may have reached the disk.
func (s *Store) reached(tx *bbolt.Tx, id int, err error) bool {
	visible := true
	_ = guarded(func() error {
		read, err := s.db.Begin(false)
		if err != nil {
			return err
		}
		visible = read.ID() >= id
		return read.Rollback()
	})
	stats := tx.Stats()
	return mayBeWritten(err, stats.GetWrite(), visible)
}

// mayBeWritten judges a failed commit by its error, the number of pages it wrote, and whether its meta page can
// be read. bbolt writes the data pages, syncs, writes the meta page, syncs; the meta page is what makes the
// commit. So nothing was changed when no page was written, or a write failed and the meta page is the old
// one. After a failed sync nobody can tell which of the two it was, nor what the disk holds.
func mayBeWritten(err error, pages int64, visible bool) bool {
	if visible {
		return true
	}
	var pe *fs.PathError
	writeFailed := errors.As(err, &pe) && pe.Op == "write"
	return pages > 0 && !writeFailed && !errors.Is(err, berrors.ErrMaxSizeReached)
}

// commitError is the answer to those whose commit failed.
func (s *Store) commitError(err error, unknown bool) error {
	kind := store.ErrUnavailable
	if unknown {
		kind = store.ErrUnknown
	}
	return fmt.Errorf("boltstore: %q: commit: %w: %w", s.path, err, kind)
}

// breakDown ends the store: bbolt gave up halfway, and neither its memory nor its locks are to be relied on. Those
// who wait for a commit are answered, since there is none any more. The mutex is held.
func (s *Store) breakDown(err error) {
	if s.broken == nil {
		s.broken = explain(s.path, err)
	}
	s.discard()
	s.notifyAll()
}
