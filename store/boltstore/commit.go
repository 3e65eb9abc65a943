package boltstore

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"

	"github.com/redo-go/redo/store"
	"go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"
)

// write commits the group in a transaction of its own. Its error is carry's. The write lock is held.
func (s *Store) write(g *group) error {
	tx, err := s.begin()
	if err != nil {
		return s.committed(g, err, false)
	}
	return s.carry(tx, g)
}

// begin begins a write transaction of bbolt. The write lock is held.
func (s *Store) begin() (tx *bbolt.Tx, err error) {
	if err := s.certain(); err != nil {
		return nil, err
	}
	err = guarded(func() (err error) {
		tx, err = s.db.Begin(true)
		return err
	})
	if errors.Is(err, ErrCorrupt) {
		s.stuck = true
	}
	return tx, err
}

// certain makes durable a commit that may have failed late, before the next commit overwrites pages of the one before
// it. The write lock is held.
func (s *Store) certain() error {
	s.mu.Lock()
	suspect := s.suspect
	s.mu.Unlock()
	if !suspect {
		return nil
	}
	err := s.persist(metaPages)
	if err != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.breakDown(err)
	}
	return err
}

// persist makes the content of the file durable: it writes the first pages again, and syncs. A process that died in a
// commit may leave a meta page that is not on disk. Its successor sees the commit, and overwrites pages of the one
// before. A power cut that lost the meta page would then damage the file. A sync alone is not enough, because it does
// not repeat the writes of an earlier one that failed.
func (s *Store) persist(pages int) error {
	content := make([]byte, pages*s.db.Info().PageSize)
	_, err := s.file.ReadAt(content, 0)
	if err == nil {
		_, err = s.file.WriteAt(content, 0)
	}
	if err == nil {
		err = s.db.Sync()
	}
	if err != nil {
		return fmt.Errorf("making its last commit durable: %w", err)
	}
	return nil
}

// carry puts the group into the transaction and commits it. The transaction is over in any case. The error wraps
// ErrUnavailable if the file is as it was, and ErrUnknown if the commit may be on disk. The write lock is held.
func (s *Store) carry(tx *bbolt.Tx, g *group) error {
	unknown, unsynced := false, false
	err := guarded(func() (err error) {
		if err = s.draft.apply(tx, g); err != nil {
			return errors.Join(err, tx.Rollback())
		}
		id, size := tx.ID(), s.size()
		if err = s.commit(tx); err != nil {
			unknown = s.reached(tx, id, err)
			stats := tx.Stats()
			unsynced = syncFailed(err, stats.GetWrite() == 0 && s.size() > size)
		}
		return err
	})
	if errors.Is(err, ErrCorrupt) {
		// A panic comes before bbolt writes its meta page, so nothing was changed. Closing needs bbolt's lock.
		s.stuck = errors.Is(guarded(tx.Rollback), ErrCorrupt)
	}
	if unsynced {
		s.mu.Lock()
		s.breakDown(fmt.Errorf("a sync failed, so its content is unknown until it is opened again: %w", err))
		s.mu.Unlock()
	}
	return s.committed(g, err, unknown)
}

// size returns the length of the file, or zero if it can't be read.
func (s *Store) size() int64 {
	info, err := s.file.Stat()
	if err != nil {
		return 0
	}
	return info.Size()
}

// syncFailed reports whether a commit failed because of a sync. bbolt returns the system's error for the syncs of its
// pages. The text that it returns for the sync of a longer file does not contain it, but then the file has grown, and
// no page was written.
//
// After a failed sync the system treats the pages as written, and the next sync succeeds. So no later commit proves
// that the earlier ones are on disk.
func syncFailed(err error, grown bool) bool {
	var pe *fs.PathError
	var errno syscall.Errno
	switch {
	case errors.As(err, &pe):
		return pe.Op == "sync"
	case errors.As(err, &errno):
		return true
	}
	return grown
}

// committed notes how a commit ended, and returns the error for its callers. The write lock is held.
func (s *Store) committed(g *group, err error, unknown bool) error {
	if err != nil {
		s.draft.reread()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil {
		s.stats.Commits++
		s.suspect, s.failures = false, 0
		s.fences = max(s.fences, g.state.Fence)
		return nil
	}
	s.stats.Failures++
	s.suspect = s.suspect || unknown
	s.failures++
	if errors.Is(err, ErrCorrupt) {
		s.breakDown(err)
	}
	kind := store.ErrUnavailable
	if unknown {
		kind = store.ErrUnknown
	}
	return fmt.Errorf("boltstore: %q: commit: %w: %w", s.path, err, kind)
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

// mayBeWritten judges a failed commit by its error, the number of pages it wrote, and whether its meta page can be
// read. A commit of bbolt writes the data pages, syncs, writes the meta page, and syncs again. The meta page makes
// the commit. So nothing was changed if no page was written, or if a write failed and the meta page is the old one.
// After a failed sync neither the cause nor the content of the disk is known.
func mayBeWritten(err error, pages int64, visible bool) bool {
	if visible {
		return true
	}
	var pe *fs.PathError
	writeFailed := errors.As(err, &pe) && pe.Op == "write"
	return pages > 0 && !writeFailed && !errors.Is(err, berrors.ErrMaxSizeReached)
}

// breakDown ends the store. After a panic of bbolt neither its memory nor its locks can be relied on, and after a
// failed sync the disk can't. Calls that wait for a commit return, since no commit follows. The mutex is held.
func (s *Store) breakDown(err error) {
	if s.broken == nil {
		s.broken = explain(s.path, err)
	}
	s.settle(s.seal(), s.broken)
	s.poller.Pushed(true)
}
