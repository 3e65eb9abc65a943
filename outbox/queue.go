package outbox

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/taxonomy"
)

// Queue keeps events until they are delivered. A [Relay] needs these methods. memoutbox, boltoutbox and pgoutbox
// implement them, and also [Backlog], [Watcher] and an Enqueue that takes their engine's own transaction:
//
//	                        ┌───── Settle Waiting, Released; end of the lease ─────┐
//	                        ▼                                                      │
//	(absent) ── Enqueue ► waiting ─────────────── Claim ────────────────────► in flight ── Settle Sent ► sent
//	                        ▲                                                      └────── Settle Dead ► dead
//	                        └──────────────────── Redrive ───────────────────────────────────────────────┘
//
// An event is one id for one destination: the same id may be enqueued for several destinations. The events of one
// destination with one ordering key are a line. Enqueue takes effect with the caller's transaction, or not at all.
// It refuses an id that the queue holds for the same destination, in any state, with [ErrDuplicate]. The caller's
// transaction can continue.
//
// Every method is atomic. It is safe for concurrent use, by several processes too if the engine allows it. The
// queue's own clock determines all times. An error is store.ErrUnknown if the write may have been made, and
// store.ErrInvalid for an argument out of its limits. Any other error wraps store.ErrUnavailable or the context's
// error. With all errors but ErrUnknown nothing was changed.
//
// Package outboxtest tests each rule. A backend is correct if it passes that suite.
type Queue interface {
	// Append enqueues the events in its own transaction. It enqueues all of them, or none if it returns an error.
	// Events without an id get one, which the caller can't learn.
	Append(ctx context.Context, events ...Event) error

	// Claim takes at most c.Max due events, the oldest first, in one durable write. The write counts an attempt for
	// each event. Claim takes no event of a line while another claim holds one of it, or while an older event of it
	// waits for its time. A claim may take several events of one line, the oldest ones and in their order. The caller
	// delivers them one after the other. Claim takes nothing for a disabled destination. An event whose lease has
	// ended is due again, and its attempts stay counted. Claim does not wait for another Claim.
	Claim(ctx context.Context, c Claim) ([]Delivery, error)

	// Extend makes the leases end d from now. It returns the lost leases, and extends the others.
	Extend(ctx context.Context, d time.Duration, leases ...Lease) (lost []Lease, err error)

	// Settle ends attempts in one durable write. It returns the lost leases, and settles the others. It settles an
	// attempt even after its lease has ended, unless another caller has claimed the event.
	Settle(ctx context.Context, ended ...Settlement) (lost []Lease, err error)

	// Disable keeps the events of a destination waiting until Enable. If it is disabled already, the first reason
	// remains.
	Disable(ctx context.Context, destination string, why Failure) error

	// Enable ends Disable. The destination's waiting events that were due before are due now.
	Enable(ctx context.Context, destination string) error

	// Disabled returns the disabled destinations, in alphabetical order.
	Disabled(ctx context.Context) ([]DisabledDestination, error)
}

// Settlement is the end of one attempt.
type Settlement struct {
	Lease   Lease
	Outcome Outcome
}

// DisabledDestination is a destination that gets no event until it is enabled.
type DisabledDestination struct {
	Destination string
	Since       time.Time // by the queue's clock
	Why         Failure
}

// Watcher is a Queue that can report new events.
type Watcher interface {
	// Watch calls wake soon after events have become due by an Enqueue, a Redrive, a Settle or an Enable. It also calls
	// wake once when it has begun to listen. When ctx ends, it returns nil. wake must not block. An error means that the
	// watch has ended. A call of wake is a hint: some events may come without one, so poll the queue in any case.
	Watch(ctx context.Context, wake func()) error
}

// ErrDuplicate means that the queue already holds an event with this id for this destination. Nothing was changed.
var ErrDuplicate = errors.New("outbox: event id already enqueued")

// MaxClaim is the largest Claim.Max.
const MaxClaim = 1000

// Claim is a request for events.
type Claim struct {
	// Max is the maximum number of events, from 1 to MaxClaim.
	Max int
	// Lease is the time for which the caller owns the events, unless it extends the lease.
	Lease time.Duration
	// HoldKeys withholds the events of a line that are behind a dead letter.
	HoldKeys bool
	// PerDestination is the maximum number of claimed events for one destination. Zero means no limit.
	PerDestination int
	// Room holds the limits of destinations whose limit differs from PerDestination. With 0, no event of the
	// destination is claimed.
	Room map[string]int
}

// Validate returns an error wrapping store.ErrInvalid that names the value and the broken rule. Backends call it
// first.
func (c Claim) Validate() error {
	if c.Max < 1 || c.Max > MaxClaim {
		return fmt.Errorf("outbox: %w: the claim's maximum is %d, it must be from 1 to %d",
			store.ErrInvalid, c.Max, MaxClaim)
	}
	if c.PerDestination < 0 {
		return fmt.Errorf("outbox: %w: the claim's limit for a destination is %d, it must not be negative",
			store.ErrInvalid, c.PerDestination)
	}
	for _, room := range c.Room {
		if room < 0 {
			return fmt.Errorf("outbox: %w: the claim's room for a destination is %d, it must not be negative",
				store.ErrInvalid, room)
		}
	}
	return CheckLease(c.Lease)
}

// Limit returns the number of events of the destination that the claim may take.
func (c Claim) Limit(destination string) int {
	if room, ok := c.Room[destination]; ok {
		return min(room, c.Max)
	}
	if c.PerDestination > 0 {
		return min(c.PerDestination, c.Max)
	}
	return c.Max
}

// CheckLease returns an error wrapping store.ErrInvalid unless d can be a lease: a millisecond to a year.
func CheckLease(d time.Duration) error {
	if d < time.Millisecond || d > maxWait {
		return fmt.Errorf("outbox: %w: the lease is %v, it must be from %v to %v",
			store.ErrInvalid, d, time.Millisecond, maxWait)
	}
	return nil
}

// maxWait is the longest lease and the longest wait. It keeps every instant within the range that engines store.
const maxWait = 366 * 24 * time.Hour

// Lease is the right to settle an attempt, until another caller claims the event.
type Lease struct {
	Seq   uint64 // the event's place in the queue
	Fence uint64 // grows with each claim of the event
}

// Delivery is a claimed event.
type Delivery struct {
	Event Event
	Lease Lease
	// Attempt counts the claims since the event was enqueued or redriven. It includes this claim, but not claims that
	// were Released.
	Attempt int
	// Age is the time since the event was enqueued. Tried is the time since the first of these attempts was claimed,
	// zero for the first. Both are by the queue's clock, at the claim.
	Age, Tried time.Duration
}

// Result is the way in which an attempt ended. Its zero value is no result.
type Result uint8

// These are the results of an attempt.
const (
	Sent     Result = iota + 1 // acknowledged: the event is done
	Waiting                    // to be retried after Outcome.Wait
	Dead                       // given up
	Released                   // not made after all: due immediately, and the attempt is not counted
)

var resultNames = [...]string{"none", "sent", "waiting", "dead", "released"}

// String returns the result as one word.
func (r Result) String() string {
	if int(r) < len(resultNames) {
		return resultNames[r]
	}
	return fmt.Sprintf("Result(%d)", uint8(r))
}

// Outcome is the result that Settle writes.
type Outcome struct {
	Result Result
	// Wait is the time that a Waiting event rests.
	Wait time.Duration
	// Failure is kept with a Waiting or Dead event.
	Failure Failure
}

// Validate returns an error wrapping store.ErrInvalid that names the value and the broken rule. Backends call it
// first.
func (o Outcome) Validate() error {
	switch {
	case o.Result < Sent || o.Result > Released:
		return fmt.Errorf("outbox: %w: the outcome is %v", store.ErrInvalid, o.Result)
	case o.Wait < 0 || o.Wait > maxWait:
		return fmt.Errorf("outbox: %w: the wait is %v, it must be from 0 to %v", store.ErrInvalid, o.Wait, maxWait)
	case len(o.Failure.Code) > maxCode:
		return fmt.Errorf("outbox: %w: the failure's code has %d bytes, at most %d are allowed",
			store.ErrInvalid, len(o.Failure.Code), maxCode)
	case len(o.Failure.Response) > MaxResponse:
		return fmt.Errorf("outbox: %w: the failure's response has %d bytes, at most %d are allowed",
			store.ErrInvalid, len(o.Failure.Response), MaxResponse)
	case len(o.Failure.Reason) > MaxReason:
		return fmt.Errorf("outbox: %w: the failure's reason has %d bytes, at most %d are allowed",
			store.ErrInvalid, len(o.Failure.Reason), MaxReason)
	}
	return nil
}

// These are the limits of a failure, in bytes. A Relay truncates longer texts.
const (
	MaxReason   = 1024
	MaxResponse = 512
	maxCode     = 255
)

// MaxHistory is the number of failures of an event that a queue keeps: the last ones.
const MaxHistory = 32

// Failure describes how an attempt failed.
type Failure struct {
	Code   taxonomy.Code
	Reason string // the error's text, UTF-8
	// Status is the response's, zero if there was none. Response holds the first bytes of its body, as UTF-8.
	Status   int
	Response string
	Elapsed  time.Duration // of the attempt
}
