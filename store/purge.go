package store

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/redo-go/redo/internal/null"
)

// purgeBatch is the number of records that PurgeEvery deletes at a time.
const purgeBatch = 1000

// PurgeEvery purges st until the context ends, and returns the context's error. It runs in the caller's goroutine. It
// pauses before each round for the interval, a quarter more or less, so that processes that start together drift
// apart. A round deletes all expired records, 1000 at a time. After each round PurgeEvery calls observe, if not nil,
// with the number of deleted records and the round's error. An error does not end the loop. A nil store, and an
// interval that is not positive, are ErrInvalid.
func PurgeEvery(ctx context.Context, st Store, interval time.Duration, observe func(purged int, err error)) error {
	if null.Is(st) {
		return fmt.Errorf("%w: the store is nil", ErrInvalid)
	}
	if interval <= 0 {
		return fmt.Errorf("%w: the interval is %v, it must be positive", ErrInvalid, interval)
	}
	for {
		select {
		case <-time.After(jitter(interval, rand.Float64())):
		case <-ctx.Done():
			return ctx.Err()
		}
		purged, err := purgeAll(ctx, st)
		if ctx.Err() != nil && purged == 0 {
			return ctx.Err()
		}
		if observe != nil {
			observe(purged, err)
		}
	}
}

// ValidatePurge returns an error that wraps ErrInvalid if the limit of a Purge is not positive.
func ValidatePurge(limit int) error {
	if limit < 1 {
		return fmt.Errorf("%w: the limit is %d, it must be positive", ErrInvalid, limit)
	}
	return nil
}

func purgeAll(ctx context.Context, st Store) (purged int, err error) {
	for {
		n, err := st.Purge(ctx, purgeBatch)
		purged += n
		if err != nil || n < purgeBatch {
			return purged, err
		}
	}
}

// jitter spreads d by a quarter to both sides; r is in [0, 1).
func jitter(d time.Duration, r float64) time.Duration {
	const most = 1<<63 - 1024 // the largest float64 that a Duration holds
	return time.Duration(min(float64(d)*(0.75+r/2), most))
}
