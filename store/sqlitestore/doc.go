// Package sqlitestore is a [store.Store] in a SQLite file, without cgo. Choose it for a service on one machine whose
// effects are in SQLite too: record and effect are then one transaction. Several processes may share the file. Without
// effects in SQLite, package boltstore is faster. [Open] opens the file, and the store is handed to redo.WithStore or
// server.Middleware.
//
//	st, err := sqlitestore.Open(ctx, "payments.db", sqlitestore.WithMigrate())
//
// The tables redo_records and redo_fence are made by [WithMigrate], by [Store.Migrate], or by the program's own
// migration tool from the text that [Migration] returns. Other tables in the file are the program's, and are left
// alone.
//
// # What is promised
//
// Each call that changes a record is one transaction. It returns after SQLite has synced the commit
// (synchronous=FULL). A crash of the process or of the machine loses nothing that was acknowledged, as long as the
// disk keeps synced data. A first execution is two synced commits, Reserve and Complete, a lazy one too. A replay,
// a mismatch and a live lease only read.
//
// The file must be in WAL mode, on a local file system. Readers do not wait. SQLite has one writer at a time. A
// call that changes a record waits for the writers of this process and of others, as long as its context lasts.
//
// # Transactions
//
// [Store.Begin] opens a transaction that holds a record. The caller writes through its *sqltx.Tx, and Commit settles
// the record in it and commits both, with one synced commit. Most programs call [store.Once] with the Store.
//
//	out, again, err := store.Once(ctx, st, claim, func(ctx context.Context, tx *sqltx.Tx) (store.Outcome, error) {
//		_, err := tx.ExecContext(ctx, "UPDATE accounts SET cents = cents - 250 WHERE id = 'alice'")
//		return store.Outcome{Result: receipt}, err
//	})
//
// The transaction has the file's lock from Begin to its end. Keep it short, and let it wait for nothing outside.
// Inside it, call no method of the same Store that changes a record: that call waits until its context ends. A
// claim of the ID that the transaction holds is InFlight without a wait, in every process. A claim of another ID
// waits. If the process dies, the lock is free.
//
// Before the transaction, Begin commits the fence and the ID without a sync. The fence is used up by a rollback too,
// and over a crash. If a process dies in a transaction, a claim of that ID may be InFlight once more while another
// write is in progress.
//
// SQLite rolls the whole transaction back if a statement that writes is interrupted by its context, or if the disk is
// full. Return such an error. Nothing that the caller writes later is kept: Rollback returns nil, and Commit and
// Discard store.ErrUnavailable.
//
// # Clock
//
// Leases and retention are judged by the machine's wall clock, which all processes share. Instants have microseconds;
// durations are rounded up to them. A clock that is set back lengthens leases and retention by as much.
//
// # Compatibility
//
// The tables carry a version. A table of another version, or of another program, is refused and left alone.
package sqlitestore
