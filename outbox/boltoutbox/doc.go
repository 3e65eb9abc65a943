// Package boltoutbox is an [outbox.Queue] in the file of a [boltstore.Store]. An event is enqueued in the
// transaction of the change that it reports. The relay runs in the process that owns the file.
//
//	queue, err := boltoutbox.New(ctx, st)
//	id, err := queue.Enqueue(ctx, tx, outbox.Event{Destination: url, Payload: body})
//
// The transaction is a [boltstore.Tx], from server.Tx, store.Once or [boltstore.Store.Update]. Append needs none.
//
// # Guarantees
//
// A call that changes something returns after the change is on disk. Concurrent calls share one commit. A Claim
// that finds nothing commits nothing.
//
// A Claim reads the events that it takes, and one entry for each destination without room. It does not read events
// of a disabled destination, or of a line that a dead letter holds. So their number does not matter.
//
// The commit of an event's transaction wakes the relays of the same Queue. The relays of another Queue on the
// store find the event by polling.
//
// All data is in one root bucket, "redo-outbox" by default, see [WithBucket]. bbolt has one write transaction at a
// time. Events are therefore committed in the order of their Enqueue.
//
// Leases and waits use the wall clock. A clock that is set back delays due events by the same time. If a relay
// dies with its process, its leases expire.
//
// # A full file
//
// A claim, a settlement and a purge need room in the file. If the disk is full, or the limit of
// [boltstore.WithMaxSize] is reached, a relay can't settle what it has delivered, and delivers it again later. No event
// is lost. The relay goes on when the disk or the limit is larger. Sent events need room for outbox.Retention.
package boltoutbox
