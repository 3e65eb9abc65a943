package boltstore

import (
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"go.etcd.io/bbolt"

	"github.com/redo-go/redo/store"
)

// New pages are taken from the start of the file. Taken from anywhere, they would split the long runs of free pages.
// The list of free pages needs such a run in each commit, and the file would grow forever.
func TestFreePagesAreTakenFromTheStart(t *testing.T) {
	s := mustOpen(t, tempFile(t))
	s.db.NoSync = true
	filler := func(f func(b *bbolt.Bucket, key []byte) error, keys ...int) {
		require.NoError(t, s.Update(t.Context(), func(tx *Tx) error {
			b, err := tx.CreateBucketIfNotExists([]byte("filler"))
			for key := keys[0]; key < keys[1] && err == nil; key++ {
				err = f(b, binary.BigEndian.AppendUint64(nil, uint64(key)))
			}
			return err
		}))
	}
	value := make([]byte, 3000) // one to a page
	filler(func(b *bbolt.Bucket, key []byte) error { return b.Put(key, value) }, 0, 2000)
	filler((*bbolt.Bucket).Delete, 0, 500)
	filler((*bbolt.Bucket).Delete, 600, 2000)
	mustReserve(t, s, claim("first"), store.Acquired) // the pages are free in the next commit
	before := lastPage(t, s)
	for i := range 200 {
		mustReserve(t, s, claim(fmt.Sprint(i)), store.Acquired)
		require.LessOrEqual(t, lastPage(t, s), before)
	}
}

// lastPage returns the number of the last page in use.
func lastPage(t *testing.T, s *Store) (last int) {
	t.Helper()
	require.NoError(t, s.db.View(func(tx *bbolt.Tx) error {
		for id := range int(tx.Size()) / tx.DB().Info().PageSize {
			if p, err := tx.Page(id); err != nil || p.Type != "free" {
				require.NoError(t, err)
				last = id
			}
		}
		return nil
	}))
	return last
}
