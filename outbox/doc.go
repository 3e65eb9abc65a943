// Package outbox is the producer's side of webhooks and events: an event is written in the transaction of the change that
// it tells of, and a relay delivers it afterwards, until it is acknowledged.
//
// Most programs need three calls: Enqueue of a backend (package boltoutbox or pgoutbox), [HTTP] over a redo client, and
// [Relay.Run]:
//
//	queue, err := pgoutbox.New(pool)
//	id, err := queue.Enqueue(ctx, tx, outbox.Event{Type: "refund.created", Destination: url, Payload: body})
//
//	publisher, err := outbox.HTTP(client)
//	relay, err := outbox.NewRelay(queue, publisher)
//	err = relay.Run(ctx)
//
// # What is promised
//
// An event is delivered if and only if its transaction is committed, at least once, and each time under the same id: the
// row's id is the event's id is the Idempotency-Key (and the webhook-id of a signing transport). A process that dies
// between a delivery and its acknowledgement delivers again, so a consumer that deduplicates by id, as package inbox and
// package server do, sees each event once. It has to remember ids for longer than the relay's schedule: three days
// unless [Retry] says otherwise.
//
// Any number of relays may run, on any number of machines where the backend allows it. An event is claimed under a lease
// that is renewed while its delivery runs; a relay that has lost a lease cancels the delivery and changes nothing.
//
// # Order
//
// Events with the same [Event.OrderingKey] are delivered one after the other, in the order in which they were enqueued: at
// most one of a key is under way over all relays, and the next is not begun before it is acknowledged or dead. Events
// without a key are delivered in no order. Between two transactions that run at the same time the order is that of their
// Enqueue calls, not of their commits, which nobody can know: an event that becomes visible later than one behind it is
// delivered as soon as that one is not under way. It is never skipped.
//
// An event that can't be delivered holds up no event of another key. Those behind it wait for its retries, and go on once
// it is a dead letter, unless [HoldKeys] keeps them until it was redriven or dropped.
//
// # Attempts and dead letters
//
// Each attempt is counted durably before it is made, so that an event which kills its relay is given up too. A failure
// that is transient by package taxonomy is tried again by the schedule of [Retry], not before a time that the server
// asked for; any other makes a dead letter at once. [Backlog] lists dead letters, redrives them under their own ids, and
// tells how long the queue is.
//
// Everything in this package may be used concurrently.
package outbox
