package outbox

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/taxonomy"
)

// A Queue keeps events until they are delivered. It is what a [Relay] needs of a backend; boltoutbox and pgoutbox
// implement it, with [Backlog], [Watcher] and an Enqueue that takes their engine's own transaction:
//
//	                        ┌───── Settle Waiting, Released; end of the lease ─────┐
//	                        ▼                                                      │
//	(absent) ── Enqueue ► waiting ─────────────── Claim ────────────────────► under way ── Settle Sent ► sent
//	                        ▲                                                      └────── Settle Dead ► dead
//	                        └──────────────────── Redrive ───────────────────────────────────────────────┘
//
// Enqueue takes effect with the caller's transaction, or not at all. It refuses an id that the queue holds, in whatever
// state, with [ErrDuplicate]; the caller's transaction can go on.
//
// Every method is atomic, safe for concurrent use, by several processes too where the engine allows it, and judged by the
// queue's own clock. An error is store.ErrUnknown when the write may have been made, store.ErrLost when the lease is not
// the caller's any more, store.ErrInvalid for an argument out of its limits, and otherwise one that wraps
// store.ErrUnavailable, or the context's; with all but ErrUnknown nothing was changed.
//
// Package outboxtest states each rule as a test; a backend is right when that suite passes.
type Queue interface {
	// Claim takes at most c.Max events that are due and counts an attempt for each, in one durable write: oldest first,
	// of an ordering key at most one, and none while another of its key is under way or waits before it. An event whose
	// lease has ended is due again, with its attempts. It waits for nothing, least of all for another Claim.
	Claim(ctx context.Context, c Claim) ([]Delivery, error)

	// Extend makes the lease end d from now.
	Extend(ctx context.Context, l Lease, d time.Duration) error

	// Settle ends an attempt. It succeeds also when the lease has run out, as long as nobody else claimed the event.
	Settle(ctx context.Context, l Lease, o Outcome) error
}

// A Watcher is a Queue that can tell of new events.
type Watcher interface {
	// Watch calls wake soon after events have become due by an Enqueue, a Redrive or a Settle, and once when it has begun
	// to listen, until ctx ends; it then returns nil. wake must not block. An error means that nothing is watched any
	// more. What it tells is a hint: some events may come without it, so look now and then in any case.
	Watch(ctx context.Context, wake func()) error
}

// ErrDuplicate: the queue holds an event with this id already. Nothing was changed.
var ErrDuplicate = errors.New("outbox: event id already enqueued")

// MaxClaim is the largest Claim.Max.
const MaxClaim = 1000

// A Claim asks for events.
type Claim struct {
	// Max is how many events at most, from 1 to MaxClaim.
	Max int
	// Lease is how long they are the caller's unless it is extended.
	Lease time.Duration
	// HoldKeys keeps back the events of an ordering key that stand behind a dead letter.
	HoldKeys bool
}

// Validate returns an error wrapping store.ErrInvalid that names the value and the rule it breaks. Backends call it first.
func (c Claim) Validate() error {
	if c.Max < 1 || c.Max > MaxClaim {
		return fmt.Errorf("outbox: %w: the claim's maximum is %d, it must be from 1 to %d", store.ErrInvalid, c.Max, MaxClaim)
	}
	return CheckLease(c.Lease)
}

// CheckLease returns an error wrapping store.ErrInvalid unless d can be a lease: a millisecond to a year.
func CheckLease(d time.Duration) error {
	if d < time.Millisecond || d > maxWait {
		return fmt.Errorf("outbox: %w: the lease is %v, it must be from %v to %v", store.ErrInvalid, d, time.Millisecond, maxWait)
	}
	return nil
}

// maxWait is the longest lease and the longest wait. It keeps every instant within what engines store.
const maxWait = 366 * 24 * time.Hour

// A Lease is the right to settle an attempt, as long as nobody else has claimed the event.
type Lease struct {
	Seq   uint64 // the event's place in the queue
	Fence uint64 // only grows for an event
}

// A Delivery is an event that was claimed.
type Delivery struct {
	Event Event
	Lease Lease
	// Attempt counts the claims since the event was enqueued or redriven, this one included, save those that were
	// Released.
	Attempt int
	// Age is how long ago the event was enqueued, and Tried how long ago the first of these attempts was claimed, zero for
	// the first; both by the queue's clock, at the claim.
	Age, Tried time.Duration
}

// A Result says how an attempt ended. Its zero value is none.
type Result uint8

// Results of an attempt.
const (
	Sent     Result = iota + 1 // acknowledged: the event is done
	Waiting                    // to be tried again after Outcome.Wait
	Dead                       // given up
	Released                   // not made after all: due at once, and the attempt is not counted
)

var resultNames = [...]string{"none", "sent", "waiting", "dead", "released"}

// String returns the result in a word.
func (r Result) String() string {
	if int(r) < len(resultNames) {
		return resultNames[r]
	}
	return fmt.Sprintf("Result(%d)", uint8(r))
}

// An Outcome is what Settle writes.
type Outcome struct {
	Result Result
	// Wait is how long a Waiting event rests.
	Wait time.Duration
	// Failure is kept with a Waiting or Dead event.
	Failure Failure
}

// Validate returns an error wrapping store.ErrInvalid that names the value and the rule it breaks. Backends call it first.
func (o Outcome) Validate() error {
	switch {
	case o.Result < Sent || o.Result > Released:
		return fmt.Errorf("outbox: %w: the outcome is %v", store.ErrInvalid, o.Result)
	case o.Wait < 0 || o.Wait > maxWait:
		return fmt.Errorf("outbox: %w: the wait is %v, it must be from 0 to %v", store.ErrInvalid, o.Wait, maxWait)
	case len(o.Failure.Code) > maxCode:
		return fmt.Errorf("outbox: %w: the failure's code has %d bytes, at most %d are allowed", store.ErrInvalid, len(o.Failure.Code), maxCode)
	case len(o.Failure.Reason) > MaxReason:
		return fmt.Errorf("outbox: %w: the failure's reason has %d bytes, at most %d are allowed", store.ErrInvalid, len(o.Failure.Reason), MaxReason)
	}
	return nil
}

const (
	// MaxReason is the longest Failure.Reason, in bytes. A Relay cuts a longer one off.
	MaxReason = 1024
	maxCode   = 255
)

// A Failure says why an attempt failed.
type Failure struct {
	Code   taxonomy.Code
	Reason string // the error's text, UTF-8
}
