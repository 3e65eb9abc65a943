package boltstore_test

import (
	"bytes"
	"encoding/binary"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/redo-go/redo/internal/racetest"
	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/boltstore"
	"github.com/redo-go/redo/store/storetest"
	"github.com/stretchr/testify/require"
	"go.etcd.io/bbolt"
)

func TestContract(t *testing.T) {
	contract(t, func(v []byte) []byte { v[len(v)-1] ^= 1; return v }) // of the meta or the result
}

// A damaged header hides the record's state, and what it says of the indexes.
func TestContractWithDamagedHeader(t *testing.T) {
	racetest.Repeats(t)
	contract(t, func(v []byte) []byte { v[10] ^= 1; return v })
}

func TestContractWithLostValue(t *testing.T) {
	racetest.Repeats(t)
	contract(t, func([]byte) []byte { return nil })
}

func contract(t *testing.T, damage func(v []byte) []byte) {
	faults := lossy{}
	openAt := func(t *testing.T, path string) store.Store {
		st, err := faults.open(path)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, st.Close()) })
		return st
	}
	paths := map[store.Store]string{}
	open := func(t *testing.T) store.Store {
		path := filepath.Join(t.TempDir(), "contract.redo")
		st := openAt(t, path)
		paths[st] = path
		return st
	}
	reopened := func(t *testing.T, st store.Store) store.Store {
		again := openAt(t, paths[st])
		paths[again] = paths[st]
		return again
	}
	reopen := func(t *testing.T, st store.Store) store.Store {
		require.NoError(t, st.(*boltstore.Store).Close())
		return reopened(t, st)
	}
	// The file has one user at a time, so that a second handle is the first one.
	itself := func(_ *testing.T, first store.Store) store.Store { return first }
	damaged := func(t *testing.T, st store.Store, id store.ID) store.Store {
		require.NoError(t, st.(*boltstore.Store).Close())
		db, err := bbolt.Open(paths[st], 0o600, nil)
		require.NoError(t, err)
		require.NoError(t, db.Update(func(tx *bbolt.Tx) error {
			records := tx.Bucket([]byte("redo")).Bucket([]byte("records"))
			key := append(append(binary.AppendUvarint(nil, uint64(len(id.Scope))), id.Scope...), id.Key...)
			v := records.Get(key)
			require.NotNil(t, v)
			return records.Put(key, damage(bytes.Clone(v)))
		}))
		require.NoError(t, db.Close())
		return reopened(t, st)
	}
	storetest.Run(t, open, storetest.Beside(itself), storetest.Reopen(reopen), storetest.LeasesEndOnReopen(),
		storetest.Damage(damaged), storetest.Faults(faults.fail))
}

// A lossy holds, for each store that it opened, whether its commits fail late.
type lossy map[store.Store]*atomic.Bool

func (l lossy) open(path string) (*boltstore.Store, error) {
	lost := new(atomic.Bool)
	st, err := boltstore.Open(path, boltstore.LosingResponses(lost))
	l[st] = lost
	return st, err
}

// fail closes a store, or makes its commits fail late. A file has no connection that could be cut.
func (l lossy) fail(t *testing.T, st store.Store, f storetest.Fault) (heal func()) {
	switch f {
	case storetest.Closed:
		require.NoError(t, st.(*boltstore.Store).Close())
		return func() {}
	case storetest.ResponseLost:
		l[st].Store(true)
		return func() { l[st].Store(false) }
	}
	return nil
}
