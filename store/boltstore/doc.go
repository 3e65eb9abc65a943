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
// # Transactions
//
// [Store.Begin] opens a bbolt transaction that holds a record. What the application writes through it, to root buckets of
// its own, and the record reach the disk in one commit: after a crash both are there or neither is. Most programs
// call [store.Once] with the Store; [Store.View] reads the application's buckets.
//
//	out, again, err := store.Once(ctx, ops, claim, func(ctx context.Context, tx *bbolt.Tx) (store.Outcome, error) {
//		return store.Outcome{Result: receipt}, tx.Bucket(ledger).Put(account, balance)
//	})
//
// bbolt has one writer. While a transaction is open, a durable change of any record and a Begin of another ID wait for
// it, no longer than their contexts last; replays and other verdicts without a change, lazy outcomes, Find and View do
// not. Whoever wants to write the file gets it in the order of asking: a transaction, or the writer for all changes that are
// queued by then. So keep a transaction short, and let it wait for nothing outside. Inside it, call no method
// of the same Store: one that changes a record, begins a transaction or looks at a record whose change is queued
// waits for the transaction that it is called from, until its context ends.
//
// Who claims an ID that a transaction holds is told at once that it is in flight, or a mismatch. What stood before is still
// found. An earlier owner's Extend, Complete or Release waits for the transaction, since its commit makes them
// store.ErrLost and its rollback does not. Those who wait for the record wake when the transaction is over.
//
// Two rules can be broken through the bbolt transaction. The bucket "redo" is not the application's: where it was deleted
// or replaced Commit is store.ErrInvalid and does nothing. And it is not for the application to end the bbolt
// transaction, which is [store.ErrTxEnded]. What it has committed is settled in a second commit, before which a crash leaves
// the effect without its record. Of what it has rolled back Discard remembers the refusal, and Rollback returns nil.
//
// A Begin that is rolled back commits nothing. Its fence is used up all the same, over a crash too: the file reserves 1024
// fences at a time. So of as many Begins in a row that are rolled back, with no other change in between, one costs a
// commit, and so does the first after Open.
//
// [Store.Close] does not wait for a transaction that nobody ends: see there.
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
