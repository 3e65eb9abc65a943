package outbox

import (
	"context"
	"errors"
	"iter"
	"time"
)

// A Backlog is what operators need of a queue.
type Backlog interface {
	// Stats says how full the queue is.
	Stats(ctx context.Context) (Stats, error)

	// DeadLetters yields the dead letters, the oldest first. It takes no lock over the loop's body, so that the body may
	// redrive them. An error is yielded last, with a zero DeadLetter.
	DeadLetters(ctx context.Context) iter.Seq2[DeadLetter, error]

	// Redrive makes a dead letter wait for delivery again, under its own id and at its own place among the events of its
	// ordering key, with its attempts counted from zero. It returns ErrNoLetter when there is no such dead letter.
	//
	// The consumer may have taken the event before, and have forgotten its id since.
	Redrive(ctx context.Context, id string) error

	// Drop deletes a dead letter. It returns ErrNoLetter when there is no such dead letter.
	Drop(ctx context.Context, id string) error

	// Purge deletes at most limit events that were sent longer than age ago, and returns how many it deleted: a return below
	// limit means that nothing is left to purge for now. Until then their ids are taken. A limit below 1 and a negative age
	// are store.ErrInvalid.
	Purge(ctx context.Context, age time.Duration, limit int) (int, error)
}

// ErrNoLetter: there is no dead letter with this id.
var ErrNoLetter = errors.New("outbox: no such dead letter")

// Stats says how full a queue is, at one instant.
type Stats struct {
	Waiting int           // neither sent nor dead, those under way included
	Dead    int           // dead letters
	Oldest  time.Duration // how long ago the event that waits longest was enqueued; zero when none waits
}

// A DeadLetter is an event that was given up.
type DeadLetter struct {
	Event      Event
	EnqueuedAt time.Time // by the queue's clock
	DeadAt     time.Time
	Attempts   int
	Failure    Failure // of the last attempt
}
