package pebblestore

import (
	"errors"

	"github.com/cockroachdb/pebble/v2"
)

// failedFlush notes an error of a flush or compaction, which Pebble repeats until it succeeds.
func (s *Store) failedFlush(err error) {
	s.background.Store(&err)
	select {
	case s.failed <- struct{}{}:
	default:
	}
}

// worked notes the end of a flush or compaction for Check. If it failed while writes wait for it, it ends the Store:
// Pebble would hold the writes until the disk takes a table.
func (s *Store) worked(err error) {
	switch {
	case err == nil:
		s.background.Store(nil)
	case s.stalled.Load() && !errors.Is(err, pebble.ErrCancelledCompaction):
		s.halt(err)
	}
}

// flush moves the log's changes into tables, where each byte is under a checksum whose damage is seen. It gives up when
// Pebble fails: the log still has the changes.
func (s *Store) flush(db *pebble.DB) {
	if s.background.Load() != nil || s.isBroken() {
		return
	}
	flushed, err := db.AsyncFlush()
	if err != nil {
		return
	}
	select {
	case <-flushed:
	case <-s.failed:
	}
}
