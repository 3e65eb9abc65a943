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
// server may lose the last fraction of a second of it.
//
// A failover to a synchronous standby loses nothing that was acknowledged. One to a standby that was behind forgets what that
// had not got: a lost reservation lets a second owner in beside the first, a lost completion leaves its record pending, to be
// taken over when the lease has ended, and a lost take-over leaves the earlier owner in its place. A lost transaction is
// lost whole, its effect with its record. That is all: a lease of the lost history fits no record that was reserved since, but for
// one in 65,536 of those whose place in the fence's sequence was drawn for the same ID again. What is fenced downstream may see
// smaller fences for as long as the sequence is behind what the lost primary gave out.
//
// A Reserve that finds the record complete, in flight or under another fingerprint writes nothing: no
// transaction id is assigned and nothing is committed to the log. Statements that fail to serialize or that
// deadlock are made again. Where the answer to a write was lost, the error is [store.ErrUnknown].
//
// # Connections
//
// The store keeps no state in a session: no session locks, no LISTEN, no temporary tables. It works behind a
// transaction pooler; one that can't keep prepared statements needs default_query_exec_mode=exec in the connection
// string. [WithExecMode] with pgx.QueryExecModeExec does the same for the store's own statements; what is done in the transactions
// of Begin goes in the pool's mode. Without either, calls fail with an error that says so and wraps store.ErrUnavailable.
//
// It must be the primary that answers. On a standby every method returns [ErrStandby], the reads too: who asks after a lost
// answer would else be told what has been overtaken. A connection string that names several hosts needs
// target_session_attrs=read-write; then calls fail with store.ErrUnavailable or store.ErrUnknown while there is no primary, and the
// same Store goes on with the next one.
//
// A Reserve that writes has a transaction-level advisory lock on 64 bits of a hash of its ID, so that fences
// are drawn in the order in which they are written. Nobody waits for it but a Reserve for another Reserve.
//
// # Transactions
//
// [Store.Begin] reserves in a transaction that stays open, in which the caller does its work by the pgx.Tx; Commit settles
// the record in it and commits both. It is used by store.Once and server.Transactional. [NewSQL] offers the same to programs that
// use database/sql, over the same table and side by side.
//
//	                                          round trips   commits
//	first execution: Begin, Commit            2 + 2         1
//	first execution: Begin, Discard           2 + 3         1
//	replay, mismatch, live lease              1             0
//	held by a transaction of this store       0             0
//	held by a transaction of another process  4             0
//
// Begin costs 4 in place of 2, and what another process holds 5 in place of 4, over database/sql, and where WithExecMode asks
// for another mode than the pool's: set it in the connection string instead. To these come the caller's own statements, and a
// preparation of each statement that is new to a connection.
//
// An open transaction keeps one connection of the pool. Nobody waits for it: a duplicate in the same Store is answered
// from memory and needs no connection, so that a pool of N connections runs N handlers and still tells everybody else
// InFlight; one from elsewhere is answered from the server's table of locks. The ID is held until the transaction is over,
// however long that takes; bound the handler by its context, and the session by idle_in_transaction_session_timeout for
// the case that its process hangs. When the process or the connection dies, Postgres rolls back, and the next Begin
// acquires. Only the owner of an ended lease can wait: Extend, Complete and Release of a record that a transaction has taken over
// wait for that to end, or for their own context.
//
// The user's statements run after a savepoint, whose name is long enough to be nobody else's, so that Discard works after one that failed; Commit does not then, which
// nested savepoints (tx.Begin) are for. The transaction has the default isolation of its role and database. A failure to
// serialize or a deadlock is tried again within Begin; at Commit it wraps store.ErrUnavailable, nothing was done, and the
// whole is to be run again. Beyond that the store adds no conflicts of its own between different IDs, at serializable neither,
// once the table is larger than a few pages. A commit whose answer was lost is store.ErrUnknown.
//
// There is no form of Begin for a transaction that the caller has begun and commits himself. One that forgot to settle
// the record would commit its effect with a record that the next caller takes over, and makes the effect again; a lost
// race could not be tried again within it; and nobody would tell the Store when it was over. For tables that carry the key
// in a column of their own there is [InsertKeyed].
//
// To end the transaction is the store's business: see [store.ErrTxEnded] for what comes of a user's COMMIT or ROLLBACK. The
// server is asked then, by the transaction's number, which needs Postgres 13.
//
// # Clock
//
// Leases and retention are judged by clock_timestamp() of the server. Instants have microseconds; durations
// are rounded up to them.
package pgstore
