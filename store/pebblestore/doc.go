// Package pebblestore is a [store.Store] in one directory, for many durable changes a second. Acknowledged changes
// survive a crash of the process and of the machine. [Open] opens the directory, and [Store.Close] flushes and closes
// it. Pass the Store to redo.WithStore or server.Middleware.
//
//	ops, err := pebblestore.Open("payments.pebble")
//
// The directory is a database of Pebble, a log-structured engine: a durable change is one append to a log and one sync,
// which concurrent changes share. Package boltstore needs fewer modules, holds the application's own data, and opens a
// single file. Choose pebblestore if boltstore's throughput is too low.
//
// # Promises
//
// A call that changes a record returns after the change is on disk, with one exception. A lazy Reserve or Complete
// (see store.Claim and store.Outcome) is immediately visible to every later call. It reaches the disk with the next
// durable change, after the lazy delay (10 ms by default, see [WithLazyDelay]), or at Close. Changes reach the disk in
// the order in which they were decided, so a lazy change is never overtaken by a later one. Concurrent calls share one
// sync. A call that changes nothing, such as a Reserve that finds the record complete, writes nothing.
//
// No response rests on a change that a crash can still undo, except on a lazy one.
//
// One process at a time uses the directory. A second process, or a second Open in the same process, gets [ErrInUse]
// immediately. When the owner dies, the next Open voids the leases that it left: their records stay pending, and the
// next Reserve takes them over. A fence is never given out twice, even after a crash: the directory reserves fences
// ahead, and Open continues after them.
//
// A new record also deletes up to two expired ones, so that a service without a purge loop does not grow. Pebble frees
// their space later, when it compacts.
//
// # Failed writes
//
// After a failed write or sync the content of the disk is not known. So a full disk or a disk error ends the Store: the
// calls that wait return store.ErrUnknown, and each later call returns [ErrBroken] with store.ErrUnavailable. Close the
// Store and open the directory again, or restart the process: Open finds each acknowledged change. If the error hit
// Pebble's own files, Close can't close them. The directory is then in use until the process ends. [Store.Check]
// returns the error, so that a readiness probe sees it. If the last sync of a log fails while Pebble begins the next
// one, Pebble ends the process.
//
// # Clock
//
// Leases and retention are judged by the wall clock, made monotonic for the life of the Store. A clock that is set
// back never revives a lease or an expired record: time then goes on at the monotonic clock's rate. The Store follows
// a clock that is set forward. After a restart only the wall clock counts. If it was set back meanwhile, retention is
// longer by as much. Leases are void after a restart.
//
// # Damage
//
// Damage is reported as [ErrCorrupt], and never repaired or deleted. The Store never treats a record that fails a
// check as absent. Pebble compares a checksum of each block of a table when it reads the block, and of each entry of
// its log in Open. Each record has a checksum of its own, with its key. [Store.Verify] reads all of them, and compares
// the indexes with the records. Run it after a disk error.
//
// A power cut leaves a log that ends anywhere after its last sync. Open takes the damaged end of a log for such an end,
// unless a later block of 32 KiB shows that the damage was synced before. So damage in the last 32 KiB of the log,
// after a crash, can lose acknowledged changes, and no check finds this loss. Close moves all changes from the log into
// tables.
package pebblestore
