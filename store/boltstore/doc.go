// Package boltstore is a [store.Store] in one file. Acknowledged changes survive a crash of the process and of the
// machine. [Open] opens the file, and [Store.Close] flushes and closes it. Pass the Store to redo.WithStore or
// server.Middleware.
//
//	ops, err := boltstore.Open("payments.redo")
//
// # What is promised
//
// A call that changes a record returns after the change is on disk, with one exception. A lazy Reserve or Complete
// (see [store.Claim] and [store.Outcome]) is immediately visible to every later call. It reaches the disk with the next
// durable change, after the lazy delay (10 ms by default, see [WithLazyDelay]), or at Close. Changes reach the disk in
// the order in which they were decided, so a later change never overtakes a lazy one. Only the commit of a transaction
// or an Update may overtake lazy changes of other records. A Reserve waits for the disk in any case after a commit that
// failed. Concurrent calls share one commit. A call that changes nothing, such as a Reserve that finds the record
// complete, commits nothing.
//
// One process at a time uses the file. A second process, or a second Open in the same process, gets [ErrInUse]
// immediately. When the owner dies, the next Open voids the leases that it left: their records stay pending, and the
// next Reserve takes them over.
//
// The commit of a new record also deletes up to two expired ones, so that a service without a purge loop does not grow.
//
// The file is a bbolt database. This package keeps its data in one root bucket, "redo". Other root buckets belong to
// the application.
//
// # Transactions
//
// [Store.Begin] opens a bbolt transaction that holds a record. The application writes to root buckets of its own
// through the [Tx]. These writes and the record reach the disk in one commit: after a crash both exist or neither
// does. Most programs call [store.Once] with the Store. [Store.View] reads the application's buckets.
//
//	out, again, err := store.Once(ctx, ops, claim, func(ctx context.Context, tx *boltstore.Tx) (store.Outcome, error) {
//		return store.Outcome{Result: receipt}, tx.Bucket(ledger).Put(account, balance)
//	})
//
// bbolt has one writer. While a transaction is open, a durable change of any record and a Begin of another ID wait
// for it, as long as their contexts allow. Verdicts without a change, lazy changes, Find and View do not wait.
// Writers get the file in the order of their requests. So keep a transaction short, and do not wait for other work
// inside it. Call no method of the same Store inside it. A call that changes a record or begins a transaction waits
// for that very transaction until its context ends. So does a call that reads a record with a queued change.
//
// A claim for an ID that a transaction holds is immediately InFlight, or a Mismatch if its fingerprint differs. Find
// returns the record as it was before the transaction. Extend, Complete and Release under an earlier lease wait for
// the transaction: its commit makes them store.ErrLost, and its rollback does not. Waiters wake when the transaction
// ends.
//
// The Tx refuses Commit and Rollback. [bbolt.Bucket.Tx] returns bbolt's own transaction, which the user must not end.
// If the user ends it, every method that ends the store's transaction returns store.ErrTxEnded joined with
// store.ErrUnknown, and settles the record with [store.UnknownOutcome] in a second commit.
//
// A Begin that is rolled back commits nothing. Its fence is still used up, even after a crash, because the file
// reserves 1024 fences at a time. One of 1024 consecutive rollbacks without another change costs a commit, and so
// does the first Begin after Open.
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
// check as absent. bbolt's pages have no checksums, so these checks find damage:
//
//   - Each read of a record compares checksums over its key and its content. A record is absent only if the records on
//     both sides of the gap are sound.
//   - Open compares the size of the file with the pages in use, and both meta pages with their checksums. If the file
//     is no larger than the limit of [WithPageCheck], 64 MiB by default, Open also checks all pages.
//   - [Store.Verify], which the command "redo ops verify" runs, checks the pages, every record, and that records and
//     indexes agree. In a larger file only Verify finds a page that has lost its count of records. Run it after a disk
//     error.
//
// bbolt keeps two meta pages, and would use the older one if the newer one is damaged. The last commit would then be
// lost, so Open refuses such a file. An operator who accepts the loss can copy the sound page over the damaged one with
// the command "surgery copy-page" of bbolt. In a file above the limit of WithPageCheck, bbolt follows page numbers
// without a check. A page that refers to itself can then end the process.
//
// A power cut in the first Open of a new file can leave the file half made. Nothing was committed to it then, and the
// next Open makes it anew. On Windows it must be deleted by hand.
//
// # Failed syncs
//
// After a failed sync the content of the disk is unknown, and no later sync reports it. So the Store ends: from then on
// every method returns an error that wraps store.ErrUnavailable, and Check too. The change itself is store.ErrUnknown.
// Open reads the file as the system shows it, and makes the last commit durable before it relies on it. A full disk
// does not end the Store: writes fail, and succeed when there is room.
package boltstore
