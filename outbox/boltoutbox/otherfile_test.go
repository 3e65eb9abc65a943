package boltoutbox_test

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/outbox"
	"github.com/redo-go/redo/outbox/boltoutbox"
	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/boltstore"
)

func TestTransactionOfAnotherFileIsRefused(t *testing.T) {
	st := open(t, filepath.Join(t.TempDir(), "outbox.redo"))
	q, err := boltoutbox.New(t.Context(), st) // makes the bucket
	require.NoError(t, err)
	again, err := boltoutbox.New(t.Context(), st) // finds it
	require.NoError(t, err)
	elsewhere := open(t, filepath.Join(t.TempDir(), "other.redo"))
	for name, bucket := range map[string]bool{"without a queue": false, "with a queue of the same name": true} {
		if bucket {
			_, err := boltoutbox.New(t.Context(), elsewhere)
			require.NoError(t, err)
		}
		for _, queue := range []*boltoutbox.Queue{q, again} {
			require.NoError(t, elsewhere.Update(t.Context(), func(tx *boltstore.Tx) error {
				_, err := queue.Enqueue(t.Context(), tx, outbox.Event{ID: "k"})
				require.ErrorIs(t, err, store.ErrInvalid, name)
				return nil
			}), name)
		}
	}
	found, err := boltoutbox.New(t.Context(), elsewhere)
	require.NoError(t, err)
	stats, err := found.Stats(t.Context())
	require.NoError(t, err)
	require.Zero(t, stats)
	require.NoError(t, st.Update(t.Context(), func(tx *boltstore.Tx) error {
		_, err := again.Enqueue(t.Context(), tx, outbox.Event{ID: "k"})
		return err
	}))
}
