package boltstore

import (
	"testing"

	"github.com/redo-go/redo/store"
	"github.com/stretchr/testify/require"
	"go.etcd.io/bbolt"
)

func TestTxRefusesCommitAndGoesOn(t *testing.T) {
	s := mustOpen(t, tempFile(t))
	tx, g := mustBegin(t, s, claim("k"), store.Acquired)
	require.NoError(t, pay(tx.Tx(), "k"))
	require.ErrorIs(t, tx.Tx().Commit(), store.ErrTxEnded)
	require.NoError(t, pay(tx.Tx(), "more"))
	require.NoError(t, tx.Commit(t.Context(), store.Outcome{Result: []byte("r")}))
	require.True(t, paid(t, s, "k"))
	require.True(t, paid(t, s, "more"))
	r := find(t, s, "k")
	require.Equal(t, "r", string(r.Result))
	require.Equal(t, g.Lease.Fence, r.Fence)
}

func TestTxThatWasAskedToRollBackIsNotCommitted(t *testing.T) {
	for name, end := range ending {
		t.Run(name, func(t *testing.T) {
			s := mustOpen(t, tempFile(t))
			before := s.Stats().Commits
			tx, g := mustBegin(t, s, claim("k"), store.Acquired)
			require.NoError(t, pay(tx.Tx(), "k"))
			require.ErrorIs(t, tx.Tx().Rollback(), store.ErrTxEnded)
			err := end(tx, t.Context())
			switch name {
			case "Rollback":
				require.NoError(t, err)
			case "Commit", "Discard":
				require.ErrorIs(t, err, store.ErrTxEnded)
				require.NotErrorIs(t, err, store.ErrUnknown, "nothing was done")
			default:
				require.Error(t, err)
			}
			require.False(t, paid(t, s, "k"))
			_, err = s.Find(t.Context(), g.Lease.ID)
			require.ErrorIs(t, err, store.ErrNotFound)
			require.Equal(t, before, s.Stats().Commits)
			mustBegin(t, s, claim("k"), store.Acquired)
		})
	}
}

func TestStoresOwnBucketIsOutOfReach(t *testing.T) {
	s := mustOpen(t, tempFile(t))
	mustSettle(t, s, "old", store.Outcome{})
	tx, _ := mustBegin(t, s, claim("k"), store.Acquired)
	own := []byte("redo")
	require.Nil(t, tx.Tx().Bucket(own))
	_, err := tx.Tx().CreateBucket(own)
	require.ErrorIs(t, err, store.ErrInvalid)
	_, err = tx.Tx().CreateBucketIfNotExists(own)
	require.ErrorIs(t, err, store.ErrInvalid)
	require.ErrorIs(t, tx.Tx().DeleteBucket(own), store.ErrInvalid)

	_, err = tx.Tx().CreateBucket(accounts)
	require.NoError(t, err)
	var names []string
	require.NoError(t, tx.Tx().ForEach(func(name []byte, b *bbolt.Bucket) error {
		require.NotNil(t, b)
		names = append(names, string(name))
		return nil
	}))
	require.Equal(t, []string{"accounts"}, names)
	require.NoError(t, tx.Tx().DeleteBucket(accounts))
	require.NoError(t, tx.Commit(t.Context(), store.Outcome{}))
	require.Equal(t, store.StateComplete, find(t, s, "old").State)
}

func TestTxIsWritableWhileItIsOpen(t *testing.T) {
	require.False(t, new(Tx).Writable())
	s := mustOpen(t, tempFile(t))
	require.NoError(t, s.View(t.Context(), func(tx *Tx) error {
		require.False(t, tx.Writable())
		require.ErrorIs(t, tx.Commit(), store.ErrTxEnded)
		require.ErrorIs(t, tx.Rollback(), store.ErrTxEnded)
		return nil
	}))
	tx, _ := mustBegin(t, s, claim("k"), store.Acquired)
	require.True(t, tx.Tx().Writable())
	require.NoError(t, tx.Rollback(t.Context()))
	require.False(t, tx.Tx().Writable())
}
