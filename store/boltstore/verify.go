package boltstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/redo-go/redo/internal/envelope"
	"github.com/redo-go/redo/store"
	"go.etcd.io/bbolt"
)

// maxProblems is the number of damaged records that Verify reports.
const maxProblems = 100

// Verify reads the whole file and returns its damage. It runs bbolt's check of the pages, reads every record, and
// compares the indexes with the records. A difference between them shows that records are missing. It returns nil for
// a sound file, and otherwise an error that wraps [ErrCorrupt], or [ErrFormat] for a record of a later release. The
// errors of the first 100 records are joined.
//
// Verify takes about 1 ms a MiB. Writers of the file wait for it meanwhile.
func (s *Store) Verify(ctx context.Context) error {
	if err := s.lockFile(ctx); err != nil {
		return err
	}
	defer s.unlockFile()
	if err := s.ready(); err != nil {
		return err
	}
	err := guarded(func() error {
		return s.db.View(func(tx *bbolt.Tx) error {
			if err := s.checkPages(tx); err != nil {
				return err
			}
			b, err := open(tx)
			if err != nil {
				return err
			}
			return verify(ctx, b)
		})
	})
	return explain(s.path, err)
}

// checkPages reads all pages, and runs bbolt's check of them. It must not run beside a writer.
func (s *Store) checkPages(tx *bbolt.Tx) error {
	if err := checkTree(s.file, s.db.Info().PageSize, tx.ID()); err != nil {
		return err
	}
	var first error
	for err := range tx.Check() { // to the end, because the goroutine uses the transaction
		if first == nil {
			first = corrupt("%w", err)
		}
	}
	return first
}

// verify reads all records, and compares the indexes that they should have with those that exist.
func verify(ctx context.Context, b buckets) error {
	var problems []error
	var index []byte
	var pending, expiry envelope.Tally
	err := b.records.ForEach(func(k, v []byte) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		r, err := decodeRecord(k, v)
		if err != nil {
			if len(problems) < maxProblems {
				problems = append(problems, named(k, err))
			}
			return nil
		}
		if at := envelope.Listed(r.Record); at != 0 {
			index = envelope.AppendIndexKey(index[:0], at, k)
			pending.Add(index)
		}
		if at := envelope.Nanos(r.ExpiresAt); at != 0 {
			index = envelope.AppendIndexKey(index[:0], at, k)
			expiry.Add(index)
		}
		return nil
	})
	if err != nil || len(problems) > 0 { // a damaged record does not show its place in the indexes
		return errors.Join(append(problems, err)...)
	}
	return errors.Join(agree("pending records", b.pending, pending), agree("expiries", b.expiry, expiry))
}

// agree compares an index with the tally of the records.
func agree(name string, index *bbolt.Bucket, want envelope.Tally) error {
	var have envelope.Tally
	err := index.ForEach(func(k, _ []byte) error {
		have.Add(k)
		return nil
	})
	if err == nil && have != want {
		err = fmt.Errorf("%w: %w", store.ErrDamaged,
			corrupt("the index of %s has %d entries and the records have %d: one of them lacks some", name, have.N, want.N))
	}
	return err
}
