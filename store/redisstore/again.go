package redisstore

import (
	"context"
	"errors"
	"math"
	"time"
)

// How often, and for how long after its first failure, a call is sent again for another caller's sake. A call that
// dials by itself is failed by nobody else, so that it takes several tries only where others give up again and again.
const (
	maxAgain = 16
	againFor = time.Second
)

// A tries counts what became of one call. The zero value is that of a call not sent yet.
type tries struct {
	pause time.Duration // the last one, for what a cluster moves
	again int
	until time.Time
}

// another reports whether a call that got err is to be sent again, and rests before that if it has to.
func (t *tries) another(ctx context.Context, s *Store, err error) bool {
	switch {
	case err == nil:
		return false
	case moving(err):
		t.pause = max(firstPause, 2*t.pause)
		return s.rest(ctx, t.pause)
	case !s.disturbed(ctx, err):
		return false
	}
	now := time.Now()
	if t.again++; t.again == 1 {
		t.until = now.Add(againFor)
	}
	return t.again < maxAgain && now.Before(t.until)
}

// persist calls what only reads until there is no point in another try.
func (s *Store) persist(ctx context.Context, read func() error) error {
	err := read()
	for t := (tries{}); t.another(ctx, s, err); {
		err = read()
	}
	return err
}

// disturbed holds for the error of a call that another caller has kept from being sent.
func (s *Store) disturbed(ctx context.Context, err error) bool {
	return err != nil && othersEnd(err, ctx.Err(), left(ctx), s.owned != nil)
}

// left is the time until the context's deadline.
func left(ctx context.Context) time.Duration {
	if end, ok := ctx.Deadline(); ok {
		return time.Until(end)
	}
	return math.MaxInt64
}

// nearEnd is how long before the context's deadline an error may already be due to it: rueidis sets the deadline on the
// connection too, and its timer is another.
const nearEnd = time.Second

// othersEnd holds for an error that is due to the end of another caller's context, while the call's own has not ended and
// has some time left. Such a call was not sent, so that it may be sent again. Plain says that the client is Open's.
//
// rueidis dials when there is something to send, under the context of whoever comes first (mux._pipe). All who come
// meanwhile wait for that dial, and when it fails they are handed the dead pipe of makeMux: pipe.Do returns its error
// without having queued or written anything. Of a connection that stands, a call gets context.Canceled for its own
// context only, which then has ended. (One that is given up since AuthCredentialsFn has failed takes calls along with
// that function's error, so that it must not be context.Canceled. New says so.)
//
// A deadline tells less. When dialing has run into it, nothing was sent. Else it is that of another's HELLO; or of another's
// command on a connection that does not pipeline yet, behind which a queue waits that pipe.failSync leaves unwritten;
// or the call's own, with its command sent (pipe.syncDo), unless that is some time off; or of a refresh of credentials, which
// takes written commands along (pipe.refreshAuth), but not with a client that Open made, since that never does it.
func othersEnd(err, ended error, left time.Duration, plain bool) bool {
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
