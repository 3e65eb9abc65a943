package boltstore_test

import (
	"path/filepath"
	"testing"

	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/boltstore"
	"github.com/redo-go/redo/store/storetest"
	"github.com/stretchr/testify/require"
)

func TestContract(t *testing.T) {
	openAt := func(t *testing.T, path string) store.Store {
		st, err := boltstore.Open(path)
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
	reopen := func(t *testing.T, st store.Store) store.Store {
		require.NoError(t, st.(*boltstore.Store).Close())
		again := openAt(t, paths[st])
		paths[again] = paths[st]
		return again
	}
	// The file has one user at a time, so that a second handle is the first one.
	itself := func(_ *testing.T, first store.Store) store.Store { return first }
	storetest.Run(t, open, storetest.Beside(itself), storetest.Reopen(reopen), storetest.LeasesEndOnReopen())
}
