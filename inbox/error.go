package inbox

import (
	"errors"
	"fmt"
	"time"

	"github.com/redo-go/redo/taxonomy"
)

// Codes of this package's own.
const (
	// HandlerFailed: the handler returned an error. The event is to be delivered again.
	HandlerFailed taxonomy.Code = "TRANSIENT.handler_failed"
	// Unreadable: what an earlier process wrote about the event can't be read by this one. Nothing was done.
	Unreadable taxonomy.Code = "CONFIGURATION.stored_event"
)

// An Error says why a delivery must not be acknowledged. errors.Is finds its code, and what it wraps.
type Error struct {
	// Code is taxonomy.InFlight (another delivery is being handled, or a failed one rests), taxonomy.PayloadMismatch (the
	// id was used for another payload), HandlerFailed, taxonomy.Unavailable (the store can't be reached), Unreadable,
	// taxonomy.BadRequest or taxonomy.ContentTooLarge (the event breaks a limit). That of Redrive may be
	// taxonomy.OutcomeUnknown (the dead letter is Unknown).
	Code taxonomy.Code
	// Source and ID are the event's.
	Source, ID string
	// Attempts is how many attempts were made, this one included, as far as it is known.
	Attempts int
	// RetryAfter is how long another delivery would be refused; zero when it is not known.
	RetryAfter time.Duration
	// Err is the cause: the handler's error, or the store's. It may be nil.
	Err error
}

// Error implements error.
func (e *Error) Error() string {
	s := fmt.Sprintf("inbox: event %.64q/%.64q: %s", e.Source, e.ID, e.Code)
	if e.Source == "" && e.ID == "" {
		s = "inbox: " + string(e.Code)
	}
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// Unwrap returns the code and the cause.
func (e *Error) Unwrap() []error {
	if e.Err == nil {
		return []error{e.Code}
	}
	return []error{e.Code, e.Err}
}

// ErrRejected is what [Reject] adds to an error.
var ErrRejected = errors.New("inbox: event rejected")

// ErrNoLetter: there is no dead letter of that source and id.
var ErrNoLetter = errors.New("inbox: no such dead letter")

// Reject marks a handler's error as final: the event becomes a dead letter at once. A nil error stays nil.
func Reject(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w: %w", ErrRejected, err)
}
