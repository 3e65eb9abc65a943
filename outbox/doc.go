// Package outbox is the producer's side of webhooks and events. An event is written in the transaction of the
// change that caused it. A relay delivers it afterwards, until it is acknowledged.
//
// Most programs need three calls: Enqueue of a backend (package boltoutbox or pgoutbox), [HTTP] over a redo
// client, and [Relay.Run]:
//
//	queue, err := pgoutbox.New(pool)
//	id, err := queue.Enqueue(ctx, tx, outbox.Event{Type: "refund.created", Destination: url, Payload: body})
//
//	publisher, err := outbox.HTTP(client)
//	relay, err := outbox.NewRelay(queue, publisher)
//	err = relay.Run(ctx)
//
// [FanOut] makes one event for each of several destinations, for EnqueueBatch.
//
// # Guarantees
//
// An event is delivered if and only if its transaction is committed. It is delivered at least once, and each time
// under the same id. The row's id is the event's id, the Idempotency-Key, and the webhook-id of a signing
// transport. If a process dies between a delivery and its settlement, the event is delivered again. A consumer
// that deduplicates by id, as package inbox and package server do, processes each event once. It must remember ids
// for longer than the relay's schedule.
//
// Any number of relays may run, on any number of machines if the backend allows it. A relay claims an event under
// a lease and renews it. A relay that has lost a lease cancels the delivery and changes nothing.
//
// # Order
//
// The events of one destination with one [Event.OrderingKey] are a line. A relay delivers them one after the
// other, in the order in which they were enqueued. A delivery starts only after the previous event is acknowledged
// or dead. Events without a key have no order. Nor have events of two transactions that run at the same time. An
// event that commits after a later event of its line is delivered next, and never skipped.
//
// The events of a line wait while an older one is retried. They continue once it is a dead letter. With [HoldKeys]
// they wait until the dead letter is redriven or dropped.
//
// # Destinations
//
// A destination that hangs, fails or is slow delays no other. A relay counts deliveries by [Event.Destination]. It
// claims no events for a destination that has no room or rests. [PerDestination] bounds a destination's
// concurrency, [Breaker] sets when it rests, and all destinations take turns on the [Workers].
//
// A destination is disabled by a 410 response and by [Gone]. It is also disabled when an event uses up its whole
// schedule while nothing was delivered to that destination. Its events then wait, and don't die. [OnDisabled] and
// [Logger] notify an operator, and [Relay.Enable] enables the destination again.
//
// # Attempts and dead letters
//
// The schedule of [Retry] retries any error of the publisher, including any response but 2xx. The default is the
// table of Standard Webhooks: immediately, 5 s, 5 min, 30 min, 2 h, 5 h, 10 h, 14 h, 20 h, 24 h. Each wait is
// randomly up to 20 % longer or shorter. A response may request a longer wait, up to [HintCap]. After the last
// attempt the event is a dead letter. [Reject] makes it one immediately.
//
// Each attempt is counted durably before it is made, so that an event which kills its relay also becomes a dead
// letter. The count is taken back if nothing was sent: a failed connection, an open breaker, a client's own limit. The
// destination then rests. It is disabled if that goes on for the length of a whole schedule.
//
// [Backlog] lists events with their failures, and redrives dead letters under their own ids. [RedriveAll] redrives
// many.
//
// Everything in this package may be used concurrently.
package outbox
