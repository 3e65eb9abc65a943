package redisstore

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/redis/rueidis"
)

const (
	// A call waits for a slot that a cluster moves in pauses that double: 1.3 seconds in all. By then the client has
	// learned of a move that has ended.
	firstPause = 5 * time.Millisecond
	lastPause  = 640 * time.Millisecond
	// A call that other callers keep from being sent is repeated at most so often, and for so long after the first
	// time.
	maxDisturbed = 16
	disturbedFor = time.Second
)

// attempts counts the failures of one call. The zero value belongs to a call that was not sent yet.
type attempts struct {
	pause     time.Duration // before the last attempt
	disturbed int
	until     time.Time
}

// another reports whether a call that failed with err is sent again. It pauses first if a cluster moves the call's
// slot.
func (a *attempts) another(ctx context.Context, s *Store, err error) bool {
	switch {
	case err == nil:
		return false
	case moving(err):
		return a.rest(ctx, s)
	case !s.disturbed(ctx, err):
		return false
	}
	now := time.Now()
	if a.disturbed++; a.disturbed == 1 {
		a.until = now.Add(disturbedFor)
	}
	return a.disturbed < maxDisturbed && now.Before(a.until)
}

// rest pauses for twice as long as the last time. It returns false if the call has paused enough or has ended.
func (a *attempts) rest(ctx context.Context, s *Store) bool {
	if a.pause = max(firstPause, 2*a.pause); a.pause > lastPause {
		return false
	}
	select {
	case <-time.After(a.pause):
		return true
	case <-ctx.Done():
	case <-s.life.Done():
	}
	return false
}

// persist calls read, and repeats it as attempts allows.
func (s *Store) persist(ctx context.Context, read func() error) error {
	err := read()
	for a := (attempts{}); a.another(ctx, s, err); {
		err = read()
	}
	return err
}

// moving reports whether the server refused a call because the cluster moves the call's slot. A node refuses a script
// on several keys if it holds some of them only (TRYAGAIN). Clients follow the other redirections, dedicated
// connections do not.
func moving(err error) bool {
	if err == nil {
		return false // errors.As allocates
	}
	var reply *rueidis.RedisError
	if !errors.As(err, &reply) {
		return false
	}
	_, moved := reply.IsMoved()
	_, ask := reply.IsAsk()
	return moved || ask || reply.IsTryAgain()
}

// disturbed reports whether another caller kept the call from being sent.
func (s *Store) disturbed(ctx context.Context, err error) bool {
	if err == nil {
		return false
	}
	left := time.Duration(math.MaxInt64)
	if end, ok := ctx.Deadline(); ok {
		left = time.Until(end)
	}
	return endedByOther(err, ctx.Err(), left, s.owned != nil)
}

// nearEnd is the time before the call's own deadline in which an error may already come from that deadline.
// rueidis sets the deadline on the connection too, with another timer.
const nearEnd = time.Second

// endedByOther reports whether err comes from the end of another caller's context. The call was not sent then, and may
// be sent again. ended is the error of the call's own context. left is the time to its deadline. plain means that Open
// made the client.
//
// rueidis dials under the context of the first call that needs the connection (mux._pipe). The calls that wait for the
// dial fail with its error, and none of them was written. On an open connection, a call gets context.Canceled only for
// its own context. A client whose AuthCredentialsFn returns context.Canceled would break this rule, so New forbids it.
//
// A deadline is less clear. If the dial ran into it, nothing was sent. It may also be the deadline of another caller's
// HELLO or command on a connection that does not pipeline yet (pipe.failSync): nothing was sent either. It may be the
// call's own (pipe.syncDo), unless that is far off. A refresh of credentials fails written commands
// (pipe.refreshAuth), but Open's clients never refresh.
func endedByOther(err, ended error, left time.Duration, plain bool) bool {
	switch {
	case ended != nil:
		return false
	case errors.Is(err, context.Canceled):
		return true
	case errors.Is(err, context.DeadlineExceeded):
		return neverSent(err) || plain && left > nearEnd
	}
	return false
}
