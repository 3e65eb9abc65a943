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
	// Attempt counts the times that the event was given to a handler, this one included. The inbox sets it.
	Attempt int
	// ReceivedAt is when the event was first received, by the store's clock. The inbox sets it.
	ReceivedAt time.Time
}

// A Handler makes the effect of an event. After an error the event can be delivered again. An error from [Reject]
// makes the event a dead letter. A panic counts as an error, and continues.
type Handler func(ctx context.Context, ev Event) error

// DeriveID returns an id for a payload that has none: its hash. Two events with equal bytes are then one event.
func DeriveID(payload []byte) string { return hash(payload).String() }

// hash is the payload's fingerprint.
func hash(payload []byte) store.Fingerprint { return store.Raw("", "", "", payload) }

func (ev Event) id() store.ID     { return store.ID{Scope: eventScope + ev.Source, Key: ev.ID} }
func (ev Event) letter() store.ID { return store.ID{Scope: deadScope + ev.Source, Key: ev.ID} }

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
		rule, code = fmt.Sprintf("the payload has %d bytes, at most %d are allowed", len(ev.Payload), MaxPayload), taxonomy.ContentTooLarge
	default:
		return nil
	}
	// The error does not contain the event, because its parts may be of any length.
	return &Error{Code: code, Err: fmt.Errorf("%w: %s", store.ErrInvalid, rule)}
}
