package inbox

import (
	"context"
	"fmt"
	"time"

	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/taxonomy"
)

// Limits on an event, in bytes. A dead letter has to fit into a record's meta.
const (
	MaxSource  = store.MaxScope - len(deadScope)
	MaxID      = store.MaxKey
	MaxPayload = store.MaxMeta - maxNote
)

// Scopes of the records; the source follows.
const (
	eventScope = "inbox/"
	deadScope  = "inbox-dead/"
)

// An Event is something that happened elsewhere and is to be handled once.
type Event struct {
	// Source names who sent it, such as "bank": 1 to MaxSource bytes. Ids of different sources don't meet.
	Source string
	// ID is the producer's name of the event, the same in every delivery of it: 1 to MaxID bytes. For a producer that
	// gives none see [DeriveID].
	ID string
	// Payload is at most MaxPayload bytes. It must be the same in every delivery, unless [Fingerprint] says what
	// counts of it.
	Payload []byte
	// Attempt counts the times that the event was given to a handler, this one included. The inbox sets it.
	Attempt int
	// ReceivedAt is when the event was first received, by the store's clock. The inbox sets it.
	ReceivedAt time.Time
}

// A Handler does what an event asks for. Its error lets the event be delivered again; wrapped by [Reject] it makes a
// dead letter of it. A panic counts as an error and goes on.
type Handler func(ctx context.Context, ev Event) error

// DeriveID returns an id for a payload that has none: its hash. Two events that are equal byte by byte are then one.
func DeriveID(payload []byte) string { return hash(payload).String() }

// hash is the payload's fingerprint.
func hash(payload []byte) store.Fingerprint { return store.Raw("", "", "", payload) }

func (ev Event) id() store.ID     { return store.ID{Scope: eventScope + ev.Source, Key: ev.ID} }
func (ev Event) letter() store.ID { return store.ID{Scope: deadScope + ev.Source, Key: ev.ID} }

// validate returns an error that names the part which is out of its limits.
func (ev Event) validate() error {
	var rule string
	code := taxonomy.BadRequest
	switch {
	case ev.Source == "":
		rule = "the source is empty"
	case len(ev.Source) > MaxSource:
		rule = fmt.Sprintf("the source has %d bytes, at most %d are allowed", len(ev.Source), MaxSource)
	case ev.ID == "":
		rule = "the id is empty"
	case len(ev.ID) > MaxID:
		rule = fmt.Sprintf("the id has %d bytes, at most %d are allowed", len(ev.ID), MaxID)
	case len(ev.Payload) > MaxPayload:
		rule, code = fmt.Sprintf("the payload has %d bytes, at most %d are allowed", len(ev.Payload), MaxPayload), taxonomy.ContentTooLarge
	default:
		return nil
	}
	// Not the event itself, which may be as long as it likes.
	return &Error{Code: code, Err: fmt.Errorf("%w: %s", store.ErrInvalid, rule)}
}
