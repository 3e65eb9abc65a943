package pebblestore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/cockroachdb/pebble/v2"

	"github.com/redo-go/redo/internal/envelope"
	"github.com/redo-go/redo/store"
)

// maxProblems is the number of damaged records that Verify reports.
const maxProblems = 100

// Verify reads the whole directory and returns its damage. It has Pebble check its tables, reads every record, and
// compares the indexes with the records. A difference between them shows that records are missing. It returns nil for a
// sound directory, and otherwise an error that wraps [ErrCorrupt], or [ErrFormat] for a record of a later release. The
// errors of the first 100 records are joined. An error of the disk wraps neither. Other calls do not wait for Verify.
func (s *Store) Verify(ctx context.Context) error {
	if err := s.ready(); err != nil {
		return err
	}
	return s.view(func(db *pebble.DB) error {
		if err := db.CheckLevels(nil); err != nil {
			var failed *fs.PathError // no damage: the file could not be opened or read
			if errors.As(err, &failed) {
				return err
			}
			return corrupt("%w", err)
		}
		snap := db.NewSnapshot()
		return errors.Join(verify(ctx, snap), snap.Close())
	})
}

// verify reads all records, and compares the indexes that they should have with those that exist.
func verify(ctx context.Context, db pebble.Reader) error {
	var problems []error
	var index []byte
	var pending, expiry envelope.Tally
	it, err := db.NewIter(&pebble.IterOptions{LowerBound: []byte{recordsPrefix}, UpperBound: []byte{recordsPrefix + 1}})
	if err != nil {
		return err
	}
	for ok := it.First(); ok && ctx.Err() == nil && len(problems) < maxProblems; ok = it.Next() {
		key := it.Key()[1:]
		r, err := decodeRecord(key, it.Value())
		if err != nil {
			problems = append(problems, named(key, err))
			continue
		}
		if at := envelope.Listed(r.Record); at != 0 {
			index = appendIndexKey(index[:0], pendingPrefix, at, key)
			pending.Add(index)
		}
		if at := envelope.Nanos(r.ExpiresAt); at != 0 {
			index = appendIndexKey(index[:0], expiryPrefix, at, key)
			expiry.Add(index)
		}
	}
	// A damaged record does not show its place in the indexes.
	if err := errors.Join(append(problems, it.Close(), ctx.Err())...); err != nil {
		return err
	}
	return errors.Join(agree(db, "pending records", pendingPrefix, pending), agree(db, "expiries", expiryPrefix, expiry))
}

// agree compares an index with the tally of the records.
func agree(db pebble.Reader, name string, prefix byte, want envelope.Tally) error {
	var have envelope.Tally
	_, err := scan(db, prefix, nil, func(k []byte) bool {
		have.Add(k)
		return true
	})
	if err == nil && have != want {
		err = fmt.Errorf("%w: %w", store.ErrDamaged,
			corrupt("the index of %s has %d entries and the records have %d: one of them lacks some", name, have.N, want.N))
	}
	return err
}
