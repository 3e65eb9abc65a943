// Package boltstore is a [store.Store] in one file: what was acknowledged survives a crash of the process and
// of the machine. [Open] opens the file, Close flushes and closes it; in between the store is handed to
// redo.WithStore or server.Middleware.
//
//	ops, err := boltstore.Open("payments.redo")
//
// # What is promised
//
// A call that changes a record returns after the change is on disk, with one exception: a Complete whose
// Outcome is Lazy is visible to every later call at once, but reaches the disk with the next durable change,
// after the lazy delay (10 ms unless [WithLazyDelay] says otherwise), or at Close. Changes reach the disk in
// the order in which they were decided, so a lazy outcome is never overtaken by a later change. Calls that run
// at the same time share one commit. A call that changes nothing, such as a Reserve that finds the record
// complete, commits nothing.
//
// One process at a time uses the file. A second one, or a second Open in the same process, gets [ErrInUse] at
// once. When the owner dies, the next Open voids the leases it left: their records stay pending and the next
// Reserve is a take-over.
//
// The file is bbolt's. Everything of this package lies under one root bucket, "redo"; other root buckets are
// the application's and are left alone.
//
// # Clock
//
// Leases and retention are judged by the wall clock, made monotonic for the life of the Store: a clock that is
// set back never revives a lease or an expired record, time then goes on at the monotonic clock's rate. A
// clock that is set forward is followed. Over a restart only the wall clock counts: set back meanwhile, it
// lengthens retention by as much; leases are void after a restart anyway.
//
// # Damage
//
// Each record carries checksums over its key and its content, and a miss is believed only when the records on
// both sides of the gap are sound. A file up to the limit of [WithPageCheck] is checked page by page before
// it is used. Damage is reported as [ErrCorrupt] and never repaired, deleted or taken for an absent record.
package boltstore
