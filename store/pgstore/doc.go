// Package pgstore is a [store.Store] in a Postgres table. Any number of processes share it, and it is as durable
// as the database. [Open] connects, Check reports whether everything is set up, and the store is passed to
// redo.WithStore or server.Middleware:
//
//	st, err := pgstore.Open(ctx, "postgres://app@db/payments", pgstore.WithMigrate())
//
// [New] uses a pool that the program already has. The table is made by [WithMigrate], by [Store.Migrate], or by the
// program's own migration tool from the text of [Migration].
//
// # Promises
//
// Each call is one statement in a separate transaction. It returns after Postgres has acknowledged the commit, by
// the setting of synchronous_commit. Check refuses off, at which a crash loses acknowledged records. There is one
// exception: a Complete whose Outcome is Lazy commits with synchronous_commit off. Other calls see it immediately, and
// a crash of the server may lose the last fraction of a second of such outcomes.
//
// A Reserve that finds the record complete, in flight or under another fingerprint writes nothing. Statements that
// deadlock or fail to serialize are repeated. If the response to a write is lost, the error is [store.ErrUnknown], and
// [store.Held] settles a Reserve. docs/failover.md lists the losses of a failover.
//
// A Reserve or Commit that makes a record deletes up to two expired ones. A store that finds none searches again after
// a second. [store.PurgeEvery] deletes expired records also while no records are made.
//
// # Connections
//
// The store keeps no state in a session: no session locks, no LISTEN, no temporary tables. It works behind a
// transaction pooler. A pooler that can't keep prepared statements needs default_query_exec_mode=exec in the connection
// string. Without it, calls fail with an error that names the setting and wraps store.ErrUnavailable.
//
// The server must be the primary. On a standby every method returns [ErrStandby], because its records may be out of
// date. A connection string with several hosts needs target_session_attrs=read-write. Calls then fail with
// store.ErrUnavailable or store.ErrUnknown while there is no primary, and the same Store goes on with the next one.
//
// # Transactions
//
// [Store.Begin] reserves in a transaction that stays open. The caller writes through its pgx.Tx, and Commit writes the
// record in it and commits both. store.Once and server.Transactional use it. [NewSQL] offers the same over
// database/sql, on the same table, with one round trip more for Begin, Commit and Discard:
//
//	                                          round trips   commits
//	first execution: Begin, Commit            1 + 1         1
//	first execution: Begin, Discard           1 + 2         1
//	over a pending or expired record: Begin   2
//	replay, mismatch, live lease              1             0
//	held by a transaction of this store       0             0
//	held by a transaction of another store    1             0
//
// The caller's own statements come on top, and so does a preparation of each statement that is new to a connection.
// After a verdict that is not Owned the connection needs one more round trip for the rollback, for which the caller
// does not wait. Until then an ID whose record has been forgotten, or has expired, is InFlight for others.
//
// An open transaction keeps one connection of the pool. Its duplicates do not wait for it: they are InFlight
// immediately. A duplicate in the same Store needs no connection, so that it gets its verdict while handlers hold
// the whole pool. A duplicate that arrives before the first one has the ID needs a connection too. If there is none, as
// in a pool of one, it waits until a transaction ends, or its own context.
//
// Bound the handler by its context, and the session by idle_in_transaction_session_timeout in case its process hangs.
// If the process or the connection dies, Postgres rolls back, and the next Begin acquires the ID. Extend, Complete and
// Release under an earlier owner's lease wait until the transaction ends, or their own context.
//
// The user's statements run after a savepoint, so that Discard works after a failed one. Commit then fails: put a
// statement that may fail in a separate savepoint (tx.Begin). The transaction has the default isolation of its
// role and database. Above read committed, Begin takes one round trip more. It repeats statements that fail to
// serialize. At Commit such a failure wraps store.ErrUnavailable, and nothing was done. The store adds no conflicts
// between new records of different IDs, also under serializable.
//
// There is no Begin for a transaction that the caller has begun and commits. Its effect could be committed with a
// pending record, and would then be made again. A table that has a column for the key needs no store: see
// examples/keyed.
//
// Only the store ends the transaction, see [store.ErrTxEnded]. Commit writes the record under the role and the settings
// that the user has left. So reset a SET LOCAL ROLE before the handler returns, unless that role may write the table.
// After a Commit at which synchronous_commit is off, or default_transaction_read_only is on, the session is closed,
// because a SET would also apply to later calls. So is a session in which a call has failed by a DateStyle or a
// bytea_output that the driver can't read. Behind a pooler the server's session goes on: never SET there.
//
// A handler must not send PREPARE TRANSACTION. Commit then returns ErrTxEnded and [store.ErrUnknown], but the prepared
// transaction keeps the locks of the ID, and no record is written. The ID is InFlight until COMMIT PREPARED or ROLLBACK
// PREPARED, and the next owner does the work again.
//
// # Versions
//
// A release works with the version of the table that it makes and with the next one. So a deployment migrates first,
// and then replaces its processes. A record that a later release has written in a later format is [ErrVersion], and
// retryable.
//
// # Clock
//
// Leases and retention are judged by clock_timestamp() of the server. Instants have microseconds. Durations are rounded
// up to them.
package pgstore
