package outbox

import (
	"context"
	"errors"
	"iter"
	"time"
)

// Backlog has the methods of a queue that operators need.
type Backlog interface {
	// Stats returns the queue's counts.
	Stats(ctx context.Context) (Stats, error)

	// Events yields the waiting and dead events that the selection matches. Dead letters come first, in the order of
	// their death. Waiting events follow, the oldest first. Events holds no lock while the loop's body runs, so the
	// body may redrive them. An unreadable event is yielded with its error, and the list continues. An error with a
	// zero Entry ends the list.
	Events(ctx context.Context, s Selection) iter.Seq2[Entry, error]

	// Redrive makes a dead letter wait for delivery again, under its own ID and at its own place in its line. Its
	// attempts count from zero, and its history remains. It returns ErrNoLetter if there is no such dead letter.
	//
	// The consumer may have received the event before, and may have forgotten its ID since.
	Redrive(ctx context.Context, id, destination string) error

	// Drop deletes a dead letter. It returns ErrNoLetter if there is no such dead letter.
	Drop(ctx context.Context, id, destination string) error

	// Purge deletes at most limit sent events that were enqueued longer than age ago. It returns the number of deleted
	// events. A number below limit means that nothing is left to purge for now. An ID is taken until its event is
	// purged. A limit below 1 and a negative age are store.ErrInvalid.
	Purge(ctx context.Context, age time.Duration, limit int) (int, error)
}

// ErrNoLetter means that there is no dead letter with this ID for this destination.
var ErrNoLetter = errors.New("outbox: no such dead letter")

// Stats holds a queue's counts at one instant.
type Stats struct {
	Waiting int           // neither sent nor dead, including events in flight
	Dead    int           // dead letters
	Oldest  time.Duration // the age of the oldest waiting event, since Enqueue; zero if none waits
}

// State is the state of an event in a backlog: waiting or dead. Its zero value is no state.
type State uint8

// These are the states of the events that a Backlog lists.
const (
	StateWaiting State = iota + 1 // includes events in flight
	StateDead
)

// Selection selects events of a backlog. Each field that is not zero must match.
type Selection struct {
	State       State
	ID          string
	Destination string
	Type        string
	// Since and Until bound the instant of Enqueue: Since ≤ instant < Until.
	Since, Until time.Time
}

// Matches reports whether the selection includes the event.
func (s Selection) Matches(e Entry) bool {
	return (s.State == 0 || s.State == e.State) &&
		(s.ID == "" || s.ID == e.Event.ID) &&
		(s.Destination == "" || s.Destination == e.Event.Destination) &&
		(s.Type == "" || s.Type == e.Event.Type) &&
		!e.EnqueuedAt.Before(s.Since) &&
		(s.Until.IsZero() || e.EnqueuedAt.Before(s.Until))
}

// Entry is an event in a backlog.
type Entry struct {
	Event      Event
	State      State
	EnqueuedAt time.Time // by the queue's clock, like all times here
	DueAt      time.Time // the next attempt or the end of the lease; zero for a dead letter
	DeadAt     time.Time // zero unless it is a dead letter
	Attempts   int       // since it was enqueued or redriven
	// History holds the failures that the queue kept, the oldest first. The last one is the reason of a dead letter.
	History []PastFailure
}

// PastFailure is a failed attempt.
type PastFailure struct {
	At time.Time // when it was settled
	Failure
}

// Failure returns the last failure. It returns the zero value if there was none.
func (e Entry) Failure() Failure {
	if len(e.History) == 0 {
		return Failure{}
	}
	return e.History[len(e.History)-1].Failure
}
