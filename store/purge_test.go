package store_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/memstore"
)

func TestPurgeEvery(t *testing.T) {
	t.Run("deletes all that has expired, round after round", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			st := memstore.New()
			t.Cleanup(func() { require.NoError(t, st.Close()) })
			for i := range 2500 {
				_, err := st.Reserve(t.Context(),
					store.Claim{ID: store.ID{Key: time.Duration(i).String()}, Retention: time.Minute})
				require.NoError(t, err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			var rounds []int
			start := time.Now()
			err := store.PurgeEvery(ctx, st, time.Hour, func(purged int, err error) {
				require.NoError(t, err)
				if rounds = append(rounds, purged); len(rounds) == 2 {
					cancel()
				}
			})
			require.ErrorIs(t, err, context.Canceled)
			require.Equal(t, []int{2500, 0}, rounds)
			require.GreaterOrEqual(t, time.Since(start), 90*time.Minute,
				"two pauses of at least three quarters of an hour")
			require.LessOrEqual(t, time.Since(start), 150*time.Minute)
		})
	})
	t.Run("goes on after an error", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			st := memstore.New()
			require.NoError(t, st.Close())
			ctx, cancel := context.WithCancel(t.Context())
			failures := 0
			err := store.PurgeEvery(ctx, st, time.Second, func(_ int, err error) {
				require.ErrorIs(t, err, store.ErrUnavailable)
				if failures++; failures == 3 {
					cancel()
				}
			})
			require.True(t, errors.Is(err, context.Canceled))
			require.Equal(t, 3, failures)
		})
	})
	for rule, c := range map[string]struct{ purged, observed int }{
		"does not observe a round that its context ended": {0, 0},
		"observes what such a round has deleted":          {3, 1},
	} {
		t.Run(rule, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				observed := 0
				err := store.PurgeEvery(ctx, interrupted{cancel: cancel, purged: c.purged}, time.Second,
					func(purged int, err error) {
						require.Equal(t, c.purged, purged)
						require.ErrorIs(t, err, context.Canceled)
						observed++
					})
				require.ErrorIs(t, err, context.Canceled)
				require.Equal(t, c.observed, observed)
			})
		})
	}
	t.Run("refuses an interval that is not positive", func(t *testing.T) {
		require.ErrorIs(t, store.PurgeEvery(t.Context(), memstore.New(), 0, nil), store.ErrInvalid)
		for _, st := range []store.Store{nil, (*memstore.Store)(nil)} {
			err := store.PurgeEvery(t.Context(), st, time.Second, nil)
			require.ErrorIs(t, err, store.ErrInvalid)
			require.ErrorContains(t, err, "the store is nil")
		}
	})
}

// An interrupted store's Purge ends the context when it has deleted some records.
type interrupted struct {
	store.Store
	cancel context.CancelFunc
	purged int
}

func (i interrupted) Purge(ctx context.Context, _ int) (int, error) {
	i.cancel()
	return i.purged, ctx.Err()
}
