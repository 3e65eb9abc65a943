package redopubsub

import (
	"context"
	"time"

	"cloud.google.com/go/pubsub/v2"

	"github.com/redo-go/redo/broker"
	"github.com/redo-go/redo/inbox"
)

// Handler returns a function for Receive of a subscriber. It gives each message to receive as an event of the
// source, and acknowledges it after receive has returned nil. After an error it waits for [broker.Wait] and tries
// again. It returns the message to Pub/Sub when Receive's context ends, and without a wait if the event is
// refused.
//
// The event's id is the attribute [broker.HeaderID]. A message without it is named by its message id.
func Handler(source string, receive broker.Receive) func(context.Context, *pubsub.Message) {
	return func(ctx context.Context, msg *pubsub.Message) {
		ev := inbox.Event{Source: source, ID: msg.Attributes[broker.HeaderID], Payload: msg.Data}
		if ev.ID == "" {
			ev.ID = "pubsub:" + msg.ID
		}
		for {
			// If Ack or Nack does not arrive, Pub/Sub delivers the message again after its deadline.
			_, err := receive(context.WithoutCancel(ctx), ev)
			if err == nil {
				msg.Ack()
				return
			}
			if broker.Refused(err) {
				msg.Nack()
				return
			}
			select {
			case <-time.After(broker.Wait(err)):
			case <-ctx.Done():
				msg.Nack()
				return
			}
		}
	}
}
