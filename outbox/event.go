package outbox

import (
	"fmt"
	"net/http"
	"net/textproto"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/redo-go/redo"
	"github.com/redo-go/redo/internal/wire"
	"github.com/redo-go/redo/store"
)

// These are the limits of an event, in bytes.
const (
	MaxID          = 255 // the limit of an Idempotency-Key
	MaxType        = 255
	MaxDestination = 2048
	MaxOrderingKey = 512
	MaxHeader      = 16 << 10   // all names and values
	MaxPayload     = 1000 << 10 // the limit of an inbox
)

// Event is the report of a change, to be sent to another system.
type Event struct {
	// ID names the event in every system: 1 to MaxID printable ASCII characters without spaces. If it is empty,
	// Enqueue makes a UUIDv7. An ID derived from the change itself, such as "refund:re_1:created", can't be enqueued
	// twice. A webhook signer allows no full stop in it.
	ID string
	// Type is the kind of change, such as "refund.created", for publishers, logs and metrics. It may be empty.
	Type string
	// Destination is the event's address in its publisher's own terms: a URL for HTTP, a subject for NATS. It may
	// be empty if the publisher finds the address otherwise. Observers receive it. Logs do not contain it, because
	// a URL may be a secret.
	Destination string
	// OrderingKey orders the events of one destination: events with the same key are delivered one after the other. An
	// empty key means no order.
	OrderingKey string
	// Header is sent with the event, such as Content-Type. It is stored with the event, so credentials don't belong
	// there. Idempotency-Key, [HeaderType], the webhook- headers and those of the connection are refused.
	Header http.Header
	// Payload is sent unchanged. Nil and empty are the same.
	Payload []byte
}

// Prepare returns the event with an ID and canonical header names. It returns an error wrapping store.ErrInvalid
// that names the part which is out of its limits. Backends call it in Enqueue. The returned event shares its
// payload with ev.
func Prepare(ev Event) (Event, error) {
	if ev.ID == "" {
		id, err := redo.TimeOrderedKeys("")
		if err != nil {
			return Event{}, fmt.Errorf("outbox: %w", err)
		}
		ev.ID = id
	}
	if err := ev.Validate(); err != nil {
		return Event{}, err
	}
	if len(ev.Header) > 0 {
		h := make(http.Header, len(ev.Header))
		for name, values := range ev.Header {
			for _, v := range values {
				h.Add(name, v)
			}
		}
		ev.Header = h
	} else {
		ev.Header = nil
	}
	return ev, nil
}

// PrepareBatch is Prepare for the events of a batch. It also returns their ids. It returns [ErrDuplicate] if two events
// have the same id and the same destination.
func PrepareBatch(evs []Event) ([]Event, []string, error) {
	prepared, ids := make([]Event, len(evs)), make([]string, len(evs))
	seen := make(map[[2]string]bool, len(evs))
	for i, ev := range evs {
		ev, err := Prepare(ev)
		if err != nil {
			return nil, nil, err
		}
		name := [2]string{ev.ID, ev.Destination}
		if seen[name] {
			return nil, nil, fmt.Errorf("%w: %q", ErrDuplicate, ev.ID)
		}
		seen[name] = true
		prepared[i], ids[i] = ev, ev.ID
	}
	return prepared, ids, nil
}

// Validate returns an error wrapping store.ErrInvalid that names the part which is out of its limits. An empty ID
// is an error too. The payload does not appear in the error.
func (ev Event) Validate() error {
	invalid := func(format string, args ...any) error {
		return fmt.Errorf("outbox: %w: %s", store.ErrInvalid, fmt.Sprintf(format, args...))
	}
	if ev.ID == "" {
		return invalid("the event's id is empty")
	}
	for _, part := range []struct {
		name  string
		bytes int
		limit int
	}{
		{"id", len(ev.ID), MaxID},
		{"type", len(ev.Type), MaxType},
		{"destination", len(ev.Destination), MaxDestination},
		{"ordering key", len(ev.OrderingKey), MaxOrderingKey},
		{"payload", len(ev.Payload), MaxPayload},
	} {
		if part.bytes > part.limit {
			return invalid("the event's %s has %d bytes, at most %d are allowed", part.name, part.bytes, part.limit)
		}
	}
	for i := range len(ev.ID) {
		if c := ev.ID[i]; c <= ' ' || c > '~' {
			return invalid("the event's id %q has the byte 0x%02x at %d, it must be printable ASCII without spaces",
				ev.ID, c, i)
		}
	}
	for _, part := range []struct{ name, text string }{
		{"type", ev.Type}, {"destination", ev.Destination}, {"ordering key", ev.OrderingKey},
	} {
		if !utf8.ValidString(part.text) || strings.ContainsFunc(part.text, unicode.IsControl) {
			return invalid("the event's %s must be UTF-8 without control characters", part.name)
		}
	}
	if rule := checkHeader(ev.Header); rule != "" {
		return invalid("the event's header: %s", rule)
	}
	return nil
}

// checkHeader returns the rule that the header breaks. It returns "" if the header breaks none. Values don't
// appear in the result.
func checkHeader(h http.Header) string {
	size := 0
	for name, values := range h {
		size += len(name)
		if !wire.Token(name) {
			return fmt.Sprintf("%q is no name of a header", name)
		}
		if ownHeader(name) {
			return fmt.Sprintf("%s is not the event's to set", name)
		}
		for _, v := range values {
			size += len(v)
			// HTTP allows other bytes too, but deprecates them. The queues keep text.
			if !utf8.ValidString(v) || !wire.HeaderValue(v) {
				return fmt.Sprintf("the value of %s has a control character, or is not UTF-8", name)
			}
		}
	}
	if size > MaxHeader {
		return fmt.Sprintf("it has %d bytes, at most %d are allowed", size, MaxHeader)
	}
	return ""
}

// ownHeader reports whether the id or the type sets the header, or whether the header belongs to one connection (RFC
// 9110 §7.6.1).
func ownHeader(name string) bool {
	switch name = textproto.CanonicalMIMEHeaderKey(name); name {
	case "Idempotency-Key", HeaderType, "Connection", "Content-Length", "Host", "Keep-Alive", "Proxy-Connection", "Te",
		"Trailer", "Transfer-Encoding", "Upgrade":
		return true
	}
	return strings.HasPrefix(name, "Webhook-") || strings.HasPrefix(name, "Nats-")
}

// FanOut returns one event for each destination. All have the id of ev, or one new id if it has none. Enqueue them
// in one transaction. The errors wrap store.ErrInvalid: no destination, the same destination twice, or an event
// that is out of its limits.
func FanOut(ev Event, destinations ...string) ([]Event, error) {
	if len(destinations) == 0 {
		return nil, fmt.Errorf("outbox: %w: FanOut has no destination", store.ErrInvalid)
	}
	evs, seen := make([]Event, len(destinations)), make(map[string]bool, len(destinations))
	for i, d := range destinations {
		if seen[d] {
			return nil, fmt.Errorf("outbox: %w: FanOut has destination %d twice", store.ErrInvalid, i+1)
		}
		seen[d] = true
		ev.Destination = d
		made, err := Prepare(ev)
		if err != nil {
			return nil, err
		}
		evs[i], ev.ID = made, made.ID
	}
	return evs, nil
}
