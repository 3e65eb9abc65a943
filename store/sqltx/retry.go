package sqltx

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redo-go/redo/store"
)

// Repeat calls attempt until it reports that its error is final, and returns that. It pauses in between. If the context
// ends first, it returns the context's error. That then has the text of the last obstacle, which names the lock.
func Repeat(ctx context.Context, attempt func() (again bool, err error)) error {
	var obstacle error
	for n := 0; ; n++ {
		again, err := false, ctx.Err()
		if err == nil {
			again, err = attempt()
		}
		if again {
			obstacle = err
			if err = Pause(ctx, n); err == nil {
				continue
			}
		}
		if err != nil && err == ctx.Err() && obstacle != nil { //nolint:errorlint // this very value names no obstacle
			return fmt.Errorf("%w while it waited: %s", err, obstacle.Error())
		}
		return err
	}
}

// Pause waits before a statement is made again. It waits for 1 ms after attempt zero, and twice as long after each
// later one, up to 32 ms. It returns the context's error if that ends first.
func Pause(ctx context.Context, attempt int) error {
	select {
	case <-time.After(time.Millisecond << min(attempt, 5)):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Translated reports whether err is nil or has a meaning of the contract.
func Translated(err error) bool {
	for _, known := range []error{
		store.ErrLost, store.ErrNotFound, store.ErrUnknown, store.ErrInvalid, store.ErrUnavailable, store.ErrTxEnded,
	} {
		if errors.Is(err, known) {
			return true
		}
	}
	return err == nil
}

// State returns the state in which an outcome settles a record, for a column of integers.
func State(o store.Outcome) int64 {
	if o.Failed {
		return int64(store.StateFailed)
	}
	return int64(store.StateComplete)
}
