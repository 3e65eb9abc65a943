package boltstore

import (
	"context"
	"io"

	"go.etcd.io/bbolt"
)

// View runs f in a read transaction, for the application's own buckets. f reads committed data only, and none of an
// open transaction. It must not keep any slice or bucket that it reads, and must not call the store. A commit that
// has to enlarge the mapping of the file waits for f.
//
// An error of f is returned as it is. Any other error wraps store.ErrUnavailable, or is the context's. If
// the outcome of the last commit is unknown, View waits for another commit, as long as the context allows.
func (s *Store) View(ctx context.Context, f func(tx *Tx) error) error {
	return s.snapshot(ctx, func(tx *bbolt.Tx) error { return f(&Tx{tx: tx}) })
}

// Backup writes a copy of the file to w while the Store is in use, and returns the number of bytes. Open accepts
// the copy. It holds each commit before the call, and lacks lazy changes that are not on disk yet, as after a
// crash. It is incomplete if Backup returns an error.
//
// A commit that has to enlarge the mapping of the file waits for the copy. So w should be fast: a local file rather
// than a connection.
func (s *Store) Backup(ctx context.Context, w io.Writer) (n int64, err error) {
	err = s.snapshot(ctx, func(tx *bbolt.Tx) (err error) {
		n, err = tx.WriteTo(w)
		return err
	})
	return n, err
}

// snapshot runs f in a read transaction over what is on disk.
func (s *Store) snapshot(ctx context.Context, f func(tx *bbolt.Tx) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	if err := s.ascertain(ctx); err != nil {
		return err
	}
	s.mu.Unlock()
	var tx *bbolt.Tx
	err := guarded(func() (err error) {
		tx, err = s.db.Begin(false)
		return err
	})
	if err != nil {
		return explain(s.path, err)
	}
	defer func() { _ = tx.Rollback() }()
	return f(tx)
}
