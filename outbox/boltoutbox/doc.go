// Package boltoutbox is an [outbox.Queue] in the file of a [boltstore.Store]. An event is enqueued in the transaction
// of the change that it reports. The relay runs in the process that owns the file.
//
//	queue, err := boltoutbox.New(ctx, st)
//	id, err := queue.Enqueue(ctx, tx, outbox.Event{Destination: url, Payload: body})
//
// The transaction is a [boltstore.Tx], from server.Tx, store.Once or [boltstore.Store.Update].
//
// # What is promised
//
// A call that changes something returns after the change is on disk. Concurrent calls share one commit. A Claim
// that finds nothing commits nothing. The commit of an event's transaction wakes the relays of the same Queue. The
// relays of another Queue on the store find the event by polling.
//
// Everything is in one root bucket, "redo-outbox" by default, see [WithBucket]. bbolt has one write transaction
// at a time, so events are committed in the order in which they are enqueued, and no event appears late.
//
// Leases and waits are judged by the wall clock. A clock that is set back delays due events by as much. A relay
// that died with its process leaves leases, which end by themselves.
package boltoutbox
