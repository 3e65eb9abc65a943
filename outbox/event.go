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

// Limits on an event, in bytes.
const (
	MaxID          = 255 // what an Idempotency-Key may have
	MaxType        = 255
	MaxDestination = 2048
	MaxOrderingKey = 512
	MaxHeader      = 16 << 10 // of all names and values
	MaxPayload     = 1 << 20
)

// An Event is something that happened here and is to be told elsewhere.
type Event struct {
	// ID names the event wherever it goes: 1 to MaxID printable ASCII characters without spaces. Empty: Enqueue makes a
	// UUIDv7. A name made from the change itself, such as "refund:re_1:created", can't be enqueued twice. A webhook signer
	// allows no full stop in it.
	ID string
	// Type says what happened, such as "refund.created", for publishers, logs and metrics. It may be empty.
	Type string
	// Destination is where the event goes, in its publisher's own terms: a URL for HTTP, a subject for NATS. It may be empty
	// where the publisher finds it otherwise. It stands in observers' hands and not in logs, for a URL may be a secret.
	Destination string
	// OrderingKey puts events in order: those with the same one are delivered one after the other. Empty: in no order.
	OrderingKey string
	// Header is sent with the event, such as Content-Type. It is kept with the event, so credentials don't belong there.
	// Idempotency-Key, the webhook- headers and those of the connection are refused.
	Header http.Header
	// Payload is what is sent, as it is. Nil and empty are the same.
	Payload []byte
}

// Prepare returns the event with an id and canonical header names, or an error wrapping store.ErrInvalid that names the
// part which is out of its limits. Backends call it in Enqueue. The returned event shares its payload with ev.
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

// Validate returns an error wrapping store.ErrInvalid that names the part which is out of its limits, also where the ID is
// empty. The payload does not appear in it.
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
			return invalid("the event's id %q has the byte 0x%02x at %d, it must be printable ASCII without spaces", ev.ID, c, i)
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

// checkHeader returns the rule that the header breaks, empty when it breaks none. Values don't appear in it.
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

// ownHeader holds for what the id gives, and for what belongs to one connection (RFC 9110 §7.6.1).
func ownHeader(name string) bool {
	switch name = textproto.CanonicalMIMEHeaderKey(name); name {
	case "Idempotency-Key", "Connection", "Content-Length", "Host", "Keep-Alive", "Proxy-Connection", "Te", "Trailer",
		"Transfer-Encoding", "Upgrade":
		return true
	}
	return strings.HasPrefix(name, "Webhook-") || strings.HasPrefix(name, "Nats-")
}
