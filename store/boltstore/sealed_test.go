package boltstore

import (
	"bytes"
	"testing"
	"time"

	"github.com/redo-go/redo/store"
	"github.com/stretchr/testify/require"
)

// The seal makes a meta longer than store.MaxMeta. A meta that is not sealed may not be that long.
func TestExtendTakesASealedMetaOfTheLargestSize(t *testing.T) {
	s := mustOpen(t, tempFile(t))
	keyring, err := store.NewKeyring(store.SealKeys{
		Seal: store.SealKey{ID: "a", Secret: bytes.Repeat([]byte{1}, store.SealSecret)},
	})
	require.NoError(t, err)
	sealed := store.Sealed(s, keyring)
	g, err := sealed.Reserve(t.Context(), claim("k"))
	require.NoError(t, err)
	meta := bytes.Repeat([]byte("m"), store.MaxMeta)
	require.NoError(t, sealed.Extend(t.Context(), g.Lease, time.Hour, meta))
	r, err := sealed.Find(t.Context(), g.Lease.ID)
	require.NoError(t, err)
	require.Equal(t, meta, r.Meta)
	require.ErrorIs(t, s.Extend(t.Context(), g.Lease, time.Hour, append(meta, 'm')), store.ErrInvalid)
}

// A list of the sealed store names such an ID as damaged too.
func TestSealedDropsWhatOnlyAnIndexHas(t *testing.T) {
	s := damagedFile(t, func(b buckets, key []byte) error { return b.records.Delete(key) })
	keyring, err := store.NewKeyring(store.SealKeys{
		Seal: store.SealKey{ID: "a", Secret: bytes.Repeat([]byte{1}, store.SealSecret)},
	})
	require.NoError(t, err)
	sealed := store.Sealed(s, keyring).(store.Dropper)
	require.Equal(t, []string{"k"}, list(t, s).problems)
	require.NoError(t, sealed.Drop(t.Context(), claim("k").ID))
	require.Empty(t, list(t, s).problems)
	require.ErrorIs(t, sealed.Drop(t.Context(), claim("k").ID), store.ErrNotFound)
}
