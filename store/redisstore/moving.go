package redisstore

import (
	"context"
	"errors"
	"time"

	"github.com/redis/rueidis"
)

// How long a call waits for a slot that a cluster moves: pauses that double, 1.3 seconds in all. By then a client
// knows of a move that is over; one that goes on is the caller's to wait for.
const (
	firstPause = 5 * time.Millisecond
	lastPause  = 640 * time.Millisecond
)

// moving holds for a refusal that ends with a slot's move. A node takes no script on several keys while it holds some
// of them only (TRYAGAIN). Where to go instead (MOVED, ASK) is told to a single connection only; clients follow by
// themselves.
func moving(err error) bool {
	if err == nil {
		return false // errors.As takes memory
	}
	var answer *rueidis.RedisError
	if !errors.As(err, &answer) {
		return false
	}
	_, moved := answer.IsMoved()
	_, ask := answer.IsAsk()
	return moved || ask || answer.IsTryAgain()
}

// rest pauses, and reports whether there is a point in another try.
func (s *Store) rest(ctx context.Context, pause time.Duration) bool {
	if pause > lastPause {
		return false
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
	case <-s.closed:
	}
	return false
}
