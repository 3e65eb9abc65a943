package boltstore

import (
	"bytes"
	"fmt"

	"github.com/redo-go/redo/store"
	"go.etcd.io/bbolt"
)

// A Tx reads and writes the application's root buckets in a transaction that a [Store] owns. Its methods are those
// of [bbolt.Tx] with two differences: the Store's own bucket is out of reach, and Commit and Rollback are refused.
// It is valid until the Store ends the transaction. It may not be used concurrently.
type Tx struct {
	tx         *bbolt.Tx
	rolledBack bool // the user asked for a rollback
	onCommit   []func()
}

// Bucket returns the root bucket with the name, or nil if there is none. It returns nil for the Store's own bucket.
func (t *Tx) Bucket(name []byte) *bbolt.Bucket {
	if own(name) {
		return nil
	}
	return t.tx.Bucket(name)
}

// CreateBucket creates a root bucket, and returns an error if it exists. The error for the Store's own bucket wraps
// store.ErrInvalid.
func (t *Tx) CreateBucket(name []byte) (*bbolt.Bucket, error) {
	if err := reserved(name); err != nil {
		return nil, err
	}
	return t.tx.CreateBucket(name)
}

// CreateBucketIfNotExists returns the root bucket with the name, and creates it if there is none. The error for the
// Store's own bucket wraps store.ErrInvalid.
func (t *Tx) CreateBucketIfNotExists(name []byte) (*bbolt.Bucket, error) {
	if err := reserved(name); err != nil {
		return nil, err
	}
	return t.tx.CreateBucketIfNotExists(name)
}

// DeleteBucket deletes a root bucket, and returns an error if there is none. The error for the Store's own bucket wraps
// store.ErrInvalid.
func (t *Tx) DeleteBucket(name []byte) error {
	if err := reserved(name); err != nil {
		return err
	}
	return t.tx.DeleteBucket(name)
}

// ForEach calls f for each root bucket except the Store's own, in the order of the names. It stops at the first
// error of f and returns it.
func (t *Tx) ForEach(f func(name []byte, b *bbolt.Bucket) error) error {
	return t.tx.ForEach(func(name []byte, b *bbolt.Bucket) error {
		if own(name) {
			return nil
		}
		return f(name, b)
	})
}

// OnCommit adds a function that the Store calls after it has committed the transaction, in the committing
// goroutine. The functions run in the order in which they were added. They do not run if the transaction is rolled
// back.
func (t *Tx) OnCommit(f func()) { t.onCommit = append(t.onCommit, f) }

// Writable reports whether the transaction is open and may write.
func (t *Tx) Writable() bool { return t.tx != nil && !t.ended() && t.tx.Writable() }

// Commit refuses: it returns an error that wraps [store.ErrTxEnded], and the transaction goes on.
func (t *Tx) Commit() error {
	return fmt.Errorf("boltstore: %w: Commit is refused, the store commits the transaction", store.ErrTxEnded)
}

// Rollback refuses: it returns an error that wraps [store.ErrTxEnded]. The Store then refuses to commit the
// transaction, and rolls it back.
func (t *Tx) Rollback() error {
	t.rolledBack = true
	return t.refused()
}

// refused returns why the Store may not commit the transaction, or nil.
func (t *Tx) refused() error {
	if !t.rolledBack {
		return nil
	}
	return fmt.Errorf("boltstore: %w: Rollback is refused, return an error to undo the transaction", store.ErrTxEnded)
}

// ended reports whether bbolt's transaction has ended.
func (t *Tx) ended() bool { return t.tx.DB() == nil }

// committed calls the functions of OnCommit.
func (t *Tx) committed() {
	for _, f := range t.onCommit {
		f()
	}
}

// own reports whether the name is that of the Store's own bucket.
func own(name []byte) bool { return bytes.Equal(name, rootName) }

// reserved returns an error if the name is that of the Store's own bucket.
func reserved(name []byte) error {
	if !own(name) {
		return nil
	}
	return fmt.Errorf("boltstore: %w: the bucket %q is the store's", store.ErrInvalid, name)
}
