package pgstore

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/redo-go/redo/store"
)

// purgeBatch is how many records a statement of Purge deletes.
const purgeBatch = 1000

// Purge implements [store.Store], in statements of at most 1,000 records. It passes over records that another
// Purge, or anybody else, has locked: any number may run at a time, and share the work.
func (s *Store) Purge(ctx context.Context, limit int) (int, error) {
	if limit < 1 {
		return 0, fmt.Errorf("pgstore: %w: the limit is %d, it must be positive", store.ErrInvalid, limit)
	}
	purged := 0
	for purged < limit {
		batch := min(purgeBatch, limit-purged)
		n := 0
		err := s.run(ctx, true, func(on session) error {
			tag, err := on.Exec(ctx, s.sql.purge, int64(batch))
			n = int(tag.RowsAffected())
			return err
		})
		if err != nil {
			return purged, err
		}
		if purged += n; n < batch {
			break
		}
	}
	return purged, nil
}

// PurgeEvery purges until the context ends or the store is closed, and returns why it stopped. It runs in the
// caller's goroutine. Rounds are interval apart, a quarter more or less, so that processes started together
// drift apart; the first comes after one such pause. A round deletes everything that has expired, 1,000 records
// at a time. After each round observe, if not nil, gets the number deleted and the round's error; an error does
// not end the loop. An interval that is not positive is store.ErrInvalid.
func (s *Store) PurgeEvery(ctx context.Context, interval time.Duration, observe func(purged int, err error)) error {
	if interval <= 0 {
		return fmt.Errorf("pgstore: %w: the interval is %v, it must be positive", store.ErrInvalid, interval)
	}
	for {
		if err := s.pause(ctx, jitter(interval, rand.Float64())); err != nil {
			return err
		}
		purged, err := s.purgeAll(ctx)
		if ctx.Err() != nil && purged == 0 {
			return ctx.Err()
		}
		if observe != nil {
			observe(purged, err)
		}
	}
}

func (s *Store) purgeAll(ctx context.Context) (purged int, err error) {
	for {
		n, err := s.Purge(ctx, purgeBatch)
		purged += n
		if err != nil || n < purgeBatch {
			return purged, err
		}
	}
}

// jitter spreads d by a quarter to both sides; r is in [0, 1).
func jitter(d time.Duration, r float64) time.Duration {
	return time.Duration(float64(d) * (0.75 + r/2))
}
