package inbox

import (
	"errors"
	"fmt"
	"time"

	"github.com/redo-go/redo/taxonomy"
)

// Codes that the inbox adds to those of package taxonomy.
const (
	// HandlerFailed: the handler returned an error. The event is to be delivered again.
	HandlerFailed taxonomy.Code = "TRANSIENT.handler_failed"
	// Unreadable: this process can't read the record that an earlier one wrote. Nothing was done.
	Unreadable taxonomy.Code = "CONFIGURATION.stored_event"
)

// An Error is the reason for which a delivery must not be acknowledged. It matches its code and its cause by
// errors.Is.
type Error struct {
	// Code is one of these:
	//   - taxonomy.InFlight: another delivery is being handled, or the event rests after a failure;
	//   - taxonomy.PayloadMismatch: the id was used for another payload, and that event is not settled and not dead;
	//   - HandlerFailed;
	//   - taxonomy.Unavailable: the store can't be reached;
	//   - Unreadable;
	//   - taxonomy.BadRequest and taxonomy.ContentTooLarge: the event breaks a limit;
	//   - taxonomy.Configuration: the inbox is set up wrongly;
	//   - taxonomy.OutcomeUnknown, from Redrive only: the dead letter is Unknown.
	Code taxonomy.Code
	// Source and ID are the event's.
	Source, ID string
	// Attempts is the number of attempts, this one included. It is zero if it is not known.
	Attempts int
	// RetryAfter is the time for which the inbox will refuse further deliveries. It is zero if that is not known.
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

// after sets the number of attempts.
func (e *Error) after(attempts int) *Error {
	e.Attempts = attempts
	return e
}

// Unwrap returns the code and the cause.
func (e *Error) Unwrap() []error {
	if e.Err == nil {
		return []error{e.Code}
	}
	return []error{e.Code, e.Err}
}

// ErrRejected is the error that [Reject] adds.
var ErrRejected = errors.New("inbox: event rejected")

// ErrNoLetter: there is no dead letter and no waiting event of that source and id.
var ErrNoLetter = errors.New("inbox: no such dead letter")

// Reject marks a handler's error as final: the event becomes a dead letter immediately. A nil error stays nil.
func Reject(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w: %w", ErrRejected, err)
}
