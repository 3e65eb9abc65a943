package pebblestore_test

import (
	"bytes"
	"encoding/binary"
	"path/filepath"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/internal/racetest"
	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/pebblestore"
	"github.com/redo-go/redo/store/storetest"
)

func TestContract(t *testing.T) {
	contract(t, func(v []byte) []byte { v[len(v)-1] ^= 1; return v }) // of the meta or the result
}

// A damaged header hides the state of the record, and its place in the indexes.
func TestContractWithDamagedHeader(t *testing.T) {
	racetest.Repeats(t)
	contract(t, func(v []byte) []byte { v[10] ^= 1; return v })
}

func TestContractWithLostValue(t *testing.T) {
	racetest.Repeats(t)
	contract(t, func([]byte) []byte { return nil })
}

func contract(t *testing.T, damage func(v []byte) []byte) {
	openAt := func(t *testing.T, path string) store.Store {
		st, err := pebblestore.Open(path)
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
		require.NoError(t, st.(*pebblestore.Store).Close())
		return reopened(t, st)
	}
	// The directory has one user at a time, so that a second handle is the first one.
	itself := func(_ *testing.T, first store.Store) store.Store { return first }
	damaged := func(t *testing.T, st store.Store, id store.ID) store.Store {
		require.NoError(t, st.(*pebblestore.Store).Close())
		db, err := pebble.Open(paths[st], &pebble.Options{FormatMajorVersion: pebble.FormatWALSyncChunks})
		require.NoError(t, err)
		key := append(binary.AppendUvarint([]byte{'r'}, uint64(len(id.Scope))), id.Scope+id.Key...)
		v, closer, err := db.Get(key)
		require.NoError(t, err)
		v = bytes.Clone(v)
		require.NoError(t, closer.Close())
		require.NoError(t, db.Set(key, damage(v), pebble.Sync))
		require.NoError(t, db.Close())
		return reopened(t, st)
	}
	// A directory has no connection that could be cut, and a failed write breaks the store for good.
	faults := func(t *testing.T, st store.Store, f storetest.Fault) func() {
		if f != storetest.Closed {
			return nil
		}
		require.NoError(t, st.(*pebblestore.Store).Close())
		return func() {}
	}
	storetest.Run(t, open, storetest.Beside(itself), storetest.Reopen(reopen), storetest.LeasesEndOnReopen(),
		storetest.Damage(damaged), storetest.Faults(faults))
}
