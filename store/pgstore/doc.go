// Package pgstore is a [store.Store] in a Postgres table: any number of processes share it, and what was
// acknowledged survives what the database survives. [Open] connects, Check says whether all is set up, and the
// store is handed to redo.WithStore or server.Middleware.
//
//	st, err := pgstore.Open(ctx, "postgres://app@db/payments", pgstore.WithMigrate())
//
// [New] does the same over a pool that the program already has. The table is made by [WithMigrate], by
// [Store.Migrate], or by the program's own migration tool from the text that [Migration] returns.
//
// # What is promised
//
// Each call is one statement in a transaction of its own, and returns after Postgres has acknowledged the commit:
// what synchronous_commit promises is what is kept, on a standby too where it is set so. One exception: a
// Complete whose Outcome is Lazy commits with synchronous_commit off; it is visible at once, and a crash of the
// server may lose the last fraction of a second of it. A failover to a standby that was behind forgets what the
// standby had not got; use a synchronous standby where that matters.
//
// A Reserve that finds the record complete, in flight or under another fingerprint writes nothing: no
// transaction id is assigned and nothing is committed to the log. Statements that fail to serialize or that
// deadlock are made again. Where the answer to a write was lost, the error is [store.ErrUnknown].
//
// # Connections
//
// The store keeps no state in a session: no session locks, no LISTEN, no temporary tables. It works behind a
// transaction pooler; one that can't keep prepared statements needs [WithExecMode] with pgx.QueryExecModeExec,
// or default_query_exec_mode=exec in the connection string. It must be the primary that answers: Check refuses
// a standby. A Reserve that writes takes a transaction-level advisory lock on 64 bits of a hash of its ID, so that
// fences are drawn in the order in which they are written.
//
// # Clock
//
// Leases and retention are judged by clock_timestamp() of the server. Instants have microseconds; durations
// are rounded up to them.
package pgstore
