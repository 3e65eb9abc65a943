package boltstore_test

import (
	"context"
	"errors"
	"path/filepath"
	"testing"

	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/boltstore"
	"github.com/redo-go/redo/store/storetest"
	"github.com/stretchr/testify/require"
	"go.etcd.io/bbolt"
)

var effects = []byte("effects")

// writeEffect adds one effect with the key: a bucket of the key, with an entry for each.
func writeEffect(_ context.Context, tx *boltstore.Tx, key string) error {
	b, err := tx.CreateBucketIfNotExists(effects)
	if err != nil {
		return err
	}
	if b, err = b.CreateBucketIfNotExists([]byte(key)); err != nil {
		return err
	}
	n, err := b.NextSequence()
	if err != nil {
		return err
	}
	return b.Put([]byte{byte(n >> 8), byte(n)}, nil)
}

// givenAway returns bbolt's transaction, which a bucket gives away.
func givenAway(tx *boltstore.Tx) *bbolt.Tx { return tx.Bucket(effects).Tx() }

func TestTxContract(t *testing.T) {
	faults := lossy{}
	openAt := func(t *testing.T, path string) *boltstore.Store {
		st, err := faults.open(path)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, st.Close()) })
		return st
	}
	paths := map[store.Store]string{}
	storetest.RunTx(t, storetest.TxHarness[*boltstore.Tx]{
		Open: func(t *testing.T) store.TxStore[*boltstore.Tx] {
			path := filepath.Join(t.TempDir(), "contract.redo")
			st := openAt(t, path)
			paths[st] = path
			return st
		},
		Write: writeEffect,
		Written: func(ctx context.Context, st store.TxStore[*boltstore.Tx], key string) (n int, err error) {
			err = st.(*boltstore.Store).View(ctx, func(tx *boltstore.Tx) error {
				b := tx.Bucket(effects)
				if b != nil {
					b = b.Bucket([]byte(key))
				}
				if b != nil {
					n = b.Stats().KeyN
				}
				return nil
			})
			return n, err
		},
		Fail: func(_ context.Context, tx *boltstore.Tx) error {
			_, err := tx.CreateBucket(nil)
			if err == nil {
				return errors.New("a bucket without a name was made")
			}
			return err
		},
		Commit:   func(_ context.Context, tx *boltstore.Tx) error { return tx.Commit() },
		Rollback: func(_ context.Context, tx *boltstore.Tx) error { return tx.Rollback() },
		Ends: []func(context.Context, *boltstore.Tx) error{
			func(_ context.Context, tx *boltstore.Tx) error { return givenAway(tx).Commit() },
			func(_ context.Context, tx *boltstore.Tx) error { return givenAway(tx).Rollback() },
		},
		SingleWriter: true,
	},
		storetest.Beside(func(_ *testing.T, first store.Store) store.Store { return first }),
		storetest.Reopen(func(t *testing.T, st store.Store) store.Store {
			require.NoError(t, st.(*boltstore.Store).Close())
			again := openAt(t, paths[st])
			paths[again] = paths[st]
			return again
		}),
		storetest.LeasesEndOnReopen(), storetest.Faults(faults.fail))
}
