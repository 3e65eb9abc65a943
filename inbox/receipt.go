package inbox

import (
	"fmt"
	"time"

	"github.com/redo-go/redo/store"
)

// A Receipt is the outcome of a delivery that may be acknowledged.
type Receipt struct {
	Source      string
	ID          string
	PayloadHash store.Fingerprint
	Status      Status
	// ReceivedAt is when the event was first received, and ProcessedAt when it was settled, by the store's clock.
	ReceivedAt  time.Time
	ProcessedAt time.Time
	// Attempts is the number of attempts that were made.
	Attempts int
	// Failure is the text of the error for which the event became a dead letter. It is "" for other events.
	Failure string
	// Unknown: the event is or was a dead letter because its handler ended the transaction, so that its effect is
	// unknown. It is a fault in the program.
	Unknown bool
}

// Dead reports whether the event is a dead letter, or was one and was dropped.
func (r Receipt) Dead() bool { return r.Failure != "" }

// A Status is the result of a delivery. Its zero value is no status.
type Status uint8

// Statuses of a receipt.
const (
	Processed    Status = iota + 1 // the handler ran and succeeded
	Replayed                       // the event was settled before: nothing was done
	DeadLettered                   // the handler failed for the last time, or its effect is unknown
)

var statusNames = [...]string{"no status", "processed", "replayed", "dead-lettered"}

// String returns the status in a word.
func (s Status) String() string {
	if int(s) < len(statusNames) {
		return statusNames[s]
	}
	return fmt.Sprintf("Status(%d)", uint8(s))
}
