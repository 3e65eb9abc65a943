// Package boltoutbox is an [outbox.Queue] in the file of a [boltstore.Store]: an event is enqueued in the bbolt transaction
// of the change that it tells of, and the relay runs in the process that owns the file.
//
//	queue, err := boltoutbox.New(ctx, st)
//	id, err := queue.Enqueue(ctx, tx, outbox.Event{Destination: url, Payload: body})
//
// The transaction is one that the store opened: that of server.Tx or store.Once, or of [boltstore.Store.Update].
//
// # What is promised
//
// A call that changes something returns after the change is on disk; calls that run at the same time share one commit. A
// Claim that finds nothing commits nothing. An event that is enqueued wakes the relays of the same Queue at once, when its
// transaction is committed; those of another Queue on the store find it by polling.
//
// Everything stands in one root bucket, "redo-outbox" unless [WithBucket] says otherwise. bbolt has one write transaction
// at a time, so the order in which events are enqueued is that in which they are committed, and no event appears late.
//
// Leases and waits are judged by the wall clock: one that is set back delays what is due by as much. A relay that has died
// with its process leaves leases, which end by themselves.
package boltoutbox
