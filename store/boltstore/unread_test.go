package boltstore

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/redo-go/redo/internal/envelope"
	"github.com/redo-go/redo/internal/fakeclock"
	"github.com/redo-go/redo/store"
	"github.com/stretchr/testify/require"
	"go.etcd.io/bbolt"
)

// laterExpired is the number of expired records that a later release left. One commit does not pass so many.
const laterExpired = 2*unread + 50

// behindLater opens a store with expired records of a later release, and n expired records that expired after them.
func behindLater(t *testing.T, n int, opts ...Option) (*Store, *fakeclock.Clock) {
	t.Helper()
	s, fake := expiring(t, laterExpired+n)
	require.NoError(t, s.Close())
	edit(t, s.path, func(tx *bbolt.Tx) error {
		b, err := open(tx)
		for i := range laterExpired {
			key := envelope.AppendKey(nil, claim(fmt.Sprint(i)).ID)
			err = errors.Join(err, b.records.Put(key, laterRecord(key)))
		}
		return err
	})
	return mustOpen(t, s.path, append(opts, withClock(fake.Read))...), fake
}

func TestExpiredRecordsThatCannotBeReadBlockNoOther(t *testing.T) {
	t.Run("of a Purge", func(t *testing.T) {
		s, _ := behindLater(t, 10)
		before := s.Stats().Commits
		for want := 10; want >= 0; want -= 10 {
			n, err := s.Purge(t.Context(), 1000)
			require.ErrorIs(t, err, ErrFormat, "each Purge reports them")
			require.Equal(t, want, n)
			require.Equal(t, laterExpired+1, stored(t, s))
			if want > 0 {
				require.Equal(t, uint64(laterExpired/unread+1), s.Stats().Commits-before)
			}
		}
	})
	t.Run("of a Purge with a limit", func(t *testing.T) {
		s, _ := behindLater(t, 10)
		n, err := s.Purge(t.Context(), 3)
		require.ErrorIs(t, err, ErrFormat)
		require.Equal(t, 3, n)
	})
	t.Run("of new records, and each is passed once", func(t *testing.T) {
		s, _ := behindLater(t, 10)
		for i := range laterExpired/unread + 5 {
			mustReserve(t, s, claim(fmt.Sprint("new ", i)), store.Acquired)
		}
		require.Equal(t, laterExpired+1+laterExpired/unread+5, stored(t, s))
	})
	t.Run("that expires later and comes before them in the index", func(t *testing.T) {
		s, fake := expiring(t, 3)
		require.NoError(t, s.Close())
		edit(t, s.path, func(tx *bbolt.Tx) error {
			b, err := open(tx)
			return errors.Join(err, b.expiry.Put([]byte{9}, nil))
		})
		s = mustOpen(t, s.path, withClock(fake.Read))
		for i := range 3 {
			n, err := s.Purge(t.Context(), 1000)
			require.ErrorIs(t, err, ErrCorrupt)
			require.Equal(t, max(1, 3-2*i), n)
			c := claim(fmt.Sprint("later ", i))
			c.Lease, c.Retention = 0, time.Minute
			mustReserve(t, s, c, store.Acquired)
			fake.Wall.Add(int64(time.Hour))
		}
	})
	t.Run("that was to be deleted by a commit that failed", func(t *testing.T) {
		fails := false
		s, _ := behindLater(t, 10, withCommit(func(tx *bbolt.Tx) error {
			if fails {
				return errors.Join(errors.New("no room"), tx.Rollback())
			}
			return tx.Commit()
		}))
		_, err := s.Purge(t.Context(), 1)
		require.ErrorIs(t, err, ErrFormat)
		fails = true
		n, err := s.Purge(t.Context(), 1000)
		require.Error(t, err)
		require.Zero(t, n)
		fails = false
		n, err = s.Purge(t.Context(), 1000)
		require.ErrorIs(t, err, ErrFormat)
		require.Equal(t, 9, n)
	})
	t.Run("and a dropped one is reported no more", func(t *testing.T) {
		s, fake := expiring(t, 2)
		require.NoError(t, s.Close())
		edit(t, s.path, func(tx *bbolt.Tx) error {
			b, err := open(tx)
			return errors.Join(err, b.records.Put(envelope.AppendKey(nil, claim("0").ID), []byte("damaged")))
		})
		s = mustOpen(t, s.path, withClock(fake.Read))
		n, err := s.Purge(t.Context(), 10)
		require.ErrorIs(t, err, store.ErrDamaged)
		require.Equal(t, 1, n)
		require.NoError(t, s.Drop(context.Background(), claim("0").ID))
		n, err = s.Purge(t.Context(), 10)
		require.NoError(t, err)
		require.Zero(t, n)
	})
}
