package boltstore

import (
	"context"

	"go.etcd.io/bbolt"
)

// View runs f in a read transaction, for the application's own buckets: it sees what is committed, and nothing of a
// transaction that [Store.Begin] opened. f must not keep what it read, nor call the store: a commit that has to enlarge the
// file waits for f. An error of f is returned as it is, and any other wraps store.ErrUnavailable, save the
// context's. The context bounds the wait for a commit that has to succeed first, if the last one's outcome is unknown.
func (s *Store) View(ctx context.Context, f func(tx *bbolt.Tx) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := s.certain(ctx); err != nil {
		return err
	}
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

// certain returns nil when what the file shows is on disk.
func (s *Store) certain(ctx context.Context) error {
	for {
		s.mu.Lock()
		err, suspect := s.usable(), s.suspect
		if err != nil || !suspect {
			s.mu.Unlock()
			return err
		}
		if err := s.ascertain(ctx); err != nil {
			return err
		}
	}
}
