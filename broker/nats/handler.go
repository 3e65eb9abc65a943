package redonats

import (
	"context"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/redo-go/redo/broker"
	"github.com/redo-go/redo/inbox"
)

// Handler returns a handler for Consume of a JetStream consumer. It gives each message to receive as an event of the
// source. It acknowledges the message after receive has returned nil. After an error JetStream delivers the message
// again, after [broker.Wait]. receive gets ctx without its end.
//
// The event's id is the header [broker.HeaderID], or Nats-Msg-Id. A message with neither is named by its stream and
// sequence.
//
// Consume calls the handler for one message at a time. Call Consume several times for more.
func Handler(ctx context.Context, source string, receive broker.Receive) jetstream.MessageHandler {
	ctx = context.WithoutCancel(ctx)
	return func(msg jetstream.Msg) {
		// If Ack or Nak does not reach the server, it delivers the message again after AckWait.
		_, err := receive(ctx, inbox.Event{Source: source, ID: id(msg), Payload: msg.Data()})
		if err == nil {
			_ = msg.Ack()
			return
		}
		_ = msg.NakWithDelay(broker.Wait(err))
	}
}

func id(msg jetstream.Msg) string {
	for _, name := range []string{broker.HeaderID, jetstream.MsgIDHeader} {
		if id := msg.Headers().Get(name); id != "" {
			return id
		}
	}
	meta, err := msg.Metadata()
	if err != nil {
		return "" // the inbox refuses it
	}
	return fmt.Sprintf("nats:%s:%d", meta.Stream, meta.Sequence.Stream)
}
