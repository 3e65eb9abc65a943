package inbox

import (
	"fmt"
	"time"

	"github.com/redo-go/redo/store"
)

// A Receipt says what came of a delivery that may be acknowledged.
type Receipt struct {
	Source      string
	ID          string
	PayloadHash store.Fingerprint
	Status      Status
	// ReceivedAt is when the event was first received, ProcessedAt when it was done with, by the store's clock.
	ReceivedAt  time.Time
	ProcessedAt time.Time
	// Attempts is how many it took.
	Attempts int
	// Failure is the text of the error that the event became a dead letter with; empty for others.
	Failure string
	// Unknown: the event is a dead letter, or was one, because nobody knows what its handler did: it has committed the
	// transaction by itself and then failed, which is a fault in the program.
	Unknown bool
}

// Dead reports whether the event is a dead letter, or was one and was dropped.
func (r Receipt) Dead() bool { return r.Failure != "" }

// A Status is what a delivery did. Its zero value is none.
type Status uint8

// Statuses of a receipt.
const (
	Processed    Status = iota + 1 // the handler ran and succeeded
	Replayed                       // the event was settled before: nothing was done
	DeadLettered                   // the handler failed for the last time, or nobody knows what it did
)

var statusNames = [...]string{"no status", "processed", "replayed", "dead-lettered"}

// String returns the status in a word.
func (s Status) String() string {
	if int(s) < len(statusNames) {
		return statusNames[s]
	}
	return fmt.Sprintf("Status(%d)", uint8(s))
}
