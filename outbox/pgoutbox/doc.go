// Package pgoutbox is an [outbox.Queue] in Postgres. An event is enqueued in the pgx or database/sql transaction of the
// change that it reports. Any number of relays, on any number of machines, deliver it.
//
//	queue, err := pgoutbox.New(pool)
//	err = queue.Migrate(ctx)
//	id, err := queue.Enqueue(ctx, tx, outbox.Event{Destination: url, Payload: body})
//
// The tables are made by [Queue.Migrate], or by the program's own migration tool from the text of [Migration]. A
// release works with the version of the tables that it makes and with the next one: migrate first, then replace the
// processes.
//
// # A log and its exceptions
//
// Events are rows of a log, which is the table that [WithTable] names. A row is inserted, and deleted by Purge. It is
// updated only after a restore. An event that its first attempt delivers is written once. The other writes are shared
// by all events of a claim: the next cursor, a row with the claim's open events, and the deletion of that row. So the
// cost of an event is that of its INSERT, and vacuum has few rows to remove.
//
// The other tables have the log's name with a suffix:
//
//   - cursor holds the place up to which the log was claimed. Each claim replaces its row.
//   - claim holds events under way. A row has up to a hundred events, or the events of a line, and the end of the
//     lease.
//   - late holds events that their first claim did not send: those that failed, whose lease has expired, that were
//     released or redriven, and dead letters. Events that a claim passed over are late too.
//   - line holds lines that a claim holds or that have late events.
//   - disabled holds destinations that are disabled.
//
// An event is sent if the cursor has passed it, no claim has it open, and it is not late.
//
// # Promises
//
// A call returns after Postgres has acknowledged its commit. An event whose transaction commits late is not skipped:
// the cursor keeps which transactions were open when the log was read, and looks for their events. A transaction that
// stays open delays no event of others. Leases and waits are judged by clock_timestamp() of the server.
//
// After a dump and a restore the queue goes on where the dump was made. In another cluster an open transaction may have
// the number of a transaction of the dump. A claim then updates that transaction's rows in the log, so that they are
// not claimed again.
//
// An event's place is drawn from a sequence when it is enqueued. Two transactions that enqueue for one line at the same
// time may commit in the other order. Lock a row of the line before Enqueue if that matters.
//
// One claim at a time reads the log. Another one waits for a few milliseconds, and then returns without events of the
// log. Late events are claimed by several relays at a time.
//
// All events of a line in one claim share a lease: if one is extended, so are the others.
//
// # Lines and limits
//
// A claim takes events of a line in their order. While it holds the line the next events stay in the log. If they are
// in the way of others they become late events, once. An event behind a dead letter that [outbox.HoldKeys] holds back
// is not written again, however many claims there are: the line waits, and not its events.
//
// The same holds for destinations without room. A claim passes them only if it finds an event behind them in the
// log that may be claimed. To pass an event costs three more writes.
//
// # Old snapshots
//
// While another transaction holds an old snapshot, Postgres can't remove deleted rows. The rows that claims replace are
// then found at the end of their index, so that a claim reads as many pages as before. Late events, and lines with one
// key and many claims, become slower in that time.
//
// # Notifications
//
// Enqueue and Redrive notify the relays with pg_notify, which takes effect with the commit. A relay listens on a
// separate connection beside the pool. Postgres commits transactions that notify one after the other, in the whole
// database. So a process notifies in at most 125 transactions a second, in bursts of at most 20. After others it
// notifies from a connection of the pool within 8 ms. Relays find later commits by polling.
//
// [WithoutNotify] is for transaction poolers, through which LISTEN does not work. Without it the relay polls as well,
// and leaves a LISTEN in a session of the pooler, where notifications collect. A pooler that can't keep prepared
// statements needs default_query_exec_mode=exec in the connection string.
package pgoutbox
