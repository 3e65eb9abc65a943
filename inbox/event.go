package inbox

import (
	"context"
	"fmt"
	"time"

	"github.com/redo-go/redo/outbox"
	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/taxonomy"
)

// Limits on an event, in bytes. A record's meta has room for the payload and the inbox's note.
const (
	MaxSource  = store.MaxScope - len(unknownScope)
	MaxID      = store.MaxKey
	MaxPayload = outbox.MaxPayload
)

// Scopes of the records; the source follows.
const (
	eventScope   = "inbox/"
	unknownScope = "inbox-unknown/"
)

// An Event is a fact from another system that is to be handled once.
type Event struct {
	// Source names the sender, such as "bank": 1 to MaxSource bytes. Equal ids of different sources are different
	// events.
	Source string
	// ID is the producer's name of the event, the same in every delivery of it: 1 to MaxID bytes. For a producer
	// without ids see [DeriveID].
	ID string
	// Payload is at most MaxPayload bytes. It must be the same in every delivery, unless [Fingerprint] selects the
	// parts that must be the same.
	Payload []byte
	// OrderingKey puts the events of a source in order, in the mode of [Accept] only: events with the same key are
	// handled one after the other. "": in no order.
	OrderingKey string
	// Attempt counts the times that the event was given to a handler, this one included. The inbox sets it.
	Attempt int
	// ReceivedAt is when the event was first received, by the store's clock. The inbox sets it.
	ReceivedAt time.Time
}

func (ev Event) fail(code taxonomy.Code, err error) *Error {
	return &Error{Code: code, Source: ev.Source, ID: ev.ID, Err: err}
}

// A Handler makes the effect of an event. After an error the event can be delivered again. An error from [Reject]
// makes the event a dead letter. A panic counts as an error, and continues.
type Handler func(ctx context.Context, ev Event) error

// DeriveID returns an id for a payload that has none: its hash. Two events with equal bytes are then one event.
func DeriveID(payload []byte) string { return hash(payload).String() }

// hash is the payload's fingerprint.
func hash(payload []byte) store.Fingerprint { return store.Raw("", "", "", payload) }

func (ev Event) id() store.ID { return store.ID{Scope: eventScope + ev.Source, Key: ev.ID} }

// unknown is the ID of the letter that is kept if the handler's effect is unknown.
func (ev Event) unknown() store.ID { return store.ID{Scope: unknownScope + ev.Source, Key: ev.ID} }

// validate returns an error that names the part that breaks a limit.
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
		code = taxonomy.ContentTooLarge
		rule = fmt.Sprintf("the payload has %d bytes, at most %d are allowed", len(ev.Payload), MaxPayload)
	default:
		return nil
	}
	// The error does not contain the event, because its parts may be of any length.
	return &Error{Code: code, Err: fmt.Errorf("%w: %s", store.ErrInvalid, rule)}
}
