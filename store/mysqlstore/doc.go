// Package mysqlstore is a [store.Store] in a table of MySQL 8 or MariaDB 10.6 and later. Choose it for services whose
// effects are in such a database: record and effect are then one transaction. Any number of processes share the table.
// [Open] connects, and the store is handed to redo.WithStore or server.Middleware.
//
//	st, err := mysqlstore.Open(ctx, "app@tcp(db)/payments", mysqlstore.WithMigrate())
//
// [New] does the same over a pool that the program has. The table is made by [WithMigrate], by [Store.Migrate], or by
// the program's own migration tool from the text that [Migration] returns.
//
// # What is promised
//
// A call that changes a record returns after the server has acknowledged the commit. The commit is durable if
// innodb_flush_log_at_trx_commit and sync_binlog are 1. A lost connection is [store.ErrUnknown] if something may have
// been written. Deadlocks and lock timeouts are retried as long as the context lasts. A failover loses the writes that
// the new primary had not received. Its fences may then be smaller than those of the lost history.
//
//	                                         round trips   commits
//	first execution: Reserve, Complete       2 + 1         2
//	first execution: Begin, Commit           5 + 4         1
//	replay, mismatch, in flight              1             0
//	Reserve that takes over, or reuses a row 7             1
//	Begin that does                          8             0
//
// While there are expired records, every eighth new record deletes up to sixteen, with 4 round trips and one commit.
//
// # Transactions
//
// [Store.Begin] opens a transaction that holds a record. The caller writes through its *sqltx.Tx, and Commit settles
// the record in it and commits both. Most programs call [store.Once]. The transaction holds a lock of its session
// (GET_LOCK), which other claims check: a claim of the same ID is InFlight without a wait. Only a Reserve at the same
// instant waits, and the Extend, Complete and Release of an earlier owner. Other IDs are not affected. If the process
// or the connection dies, the server rolls back and frees the ID.
//
// The server commits before a statement such as CREATE TABLE. The outcome is then unknown: see [store.ErrTxEnded]. It
// rolls back the victim of a deadlock, and with innodb_rollback_on_timeout a transaction whose lock came too late.
// Nothing that the caller writes later is kept: Rollback returns nil, and Commit and Discard store.ErrUnavailable.
//
// # Server, clock, compatibility
//
// Check refuses a server that is read-only or too old, an sql_mode that is not strict, a max_allowed_packet below
// 4 MiB, and sessions whose writes are not committed. The server's UTC_TIMESTAMP(6) judges leases and retention, in any
// time zone. A table of another version or program is left alone.
package mysqlstore
