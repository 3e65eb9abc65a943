package boltstore

import (
	"context"
	"io"

	"go.etcd.io/bbolt"
)

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
