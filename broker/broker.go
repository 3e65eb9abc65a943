// Package broker holds the rules that the packages for message brokers share: broker/nats, broker/kafka, broker/aws and
// broker/pubsub. Each of them has an outbox.Publisher and brings a broker's messages to an inbox. A program imports the
// package of its broker, and this one for the names of the headers and for [Refused].
//
//	publisher, err := redonats.NewPublisher(js)              // producer: for outbox.NewRelay
//	consumer.Consume(redonats.Handler(ctx, "shop", receive)) // consumer: for inbox.Inbox
//
// # Promises
//
// Publish returns nil only after the broker has acknowledged the message. A message carries the event's id in
// [HeaderID], its type in [HeaderType], and the event's own header. A broker delivers at least once, and a relay may
// publish an event twice. The inbox of the consumer recognizes both by the id.
//
// A consumer acknowledges a message after [Receive] has returned nil, so after the inbox's commit. If the process dies
// in between, the broker delivers again, and the inbox handles nothing twice. After an error the message stays
// unacknowledged, and the broker delivers it again, after [Wait] where the broker allows a delay.
package broker

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/redo-go/redo/inbox"
	"github.com/redo-go/redo/outbox"
	"github.com/redo-go/redo/taxonomy"
)

// Names of the headers, or attributes, that carry the event's id and type.
const (
	HeaderID   = "Idempotency-Key"
	HeaderType = outbox.HeaderType // absent if the type is empty
)

// Header returns a new header with the event's id, type and header. A [HeaderType] in the event's own header is
// dropped.
func Header(ev outbox.Event) http.Header {
	h := ev.Header.Clone()
	if h == nil {
		h = http.Header{}
	}
	h.Set(HeaderID, ev.ID)
	h.Del(HeaderType)
	if ev.Type != "" {
		h.Set(HeaderType, ev.Type)
	}
	return h
}

// A Receive gives an event to an inbox. It is called with a context that does not end with the consumer's: a handler
// that has started may finish. The inbox's HandlerTimeout bounds it.
//
//	receive := func(ctx context.Context, ev inbox.Event) (inbox.Receipt, error) {
//		return events.Receive(ctx, ev, handle)
//	}
//
// Its message is acknowledged if the error is nil.
type Receive func(ctx context.Context, ev inbox.Event) (inbox.Receipt, error)

// Refused reports whether err is the inbox's refusal of an event that breaks one of its limits. The inbox will refuse
// the event in every delivery. A Receive that has stored such an event elsewhere returns nil, so that its message is
// acknowledged. Otherwise the message ends by the broker's own rules, such as a dead-letter queue.
func Refused(err error) bool {
	e, ok := errors.AsType[*inbox.Error](err)
	return ok && (e.Code.In(taxonomy.BadRequest) || e.Code.In(taxonomy.ContentTooLarge))
}

const (
	unknownWait = time.Second
	refusedWait = 10 * time.Minute
)

// Wait returns how long a broker should wait before it delivers an event again. err is the error of a Receive. The
// wait is the RetryAfter of an inbox.Error, ten minutes for a refused event, and a second if nothing is known.
func Wait(err error) time.Duration {
	if Refused(err) {
		return refusedWait
	}
	if e, ok := errors.AsType[*inbox.Error](err); ok && e.RetryAfter > 0 {
		return e.RetryAfter
	}
	return unknownWait
}
