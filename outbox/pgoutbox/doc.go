// Package pgoutbox is an [outbox.Queue] in a Postgres table. An event is enqueued in the pgx or database/sql
// transaction of the change that it reports. Any number of relays, on any number of machines, deliver from the table.
//
//	queue, err := pgoutbox.New(pool)
//	err = queue.Migrate(ctx)
//	id, err := queue.Enqueue(ctx, tx, outbox.Event{Destination: url, Payload: body})
//
// The table is made by [Queue.Migrate], or by the program's own migration tool from the text of [Migration]. A release
// works with the version of the table that it makes and with the next one: migrate first, then replace the processes.
//
// # Promises
//
// A call returns after Postgres has acknowledged its commit. Claims use FOR UPDATE SKIP LOCKED and read each event's
// own state, so that an event whose transaction commits late is not skipped. A unique index makes sure that at most one
// event of an ordering key is claimed at a time. Leases and waits are judged by clock_timestamp() of the server.
//
// An event's place is drawn from a sequence when it is enqueued. Two transactions that enqueue for one key at the same
// time may commit in the other order. Lock a row of the key before Enqueue if that matters.
//
// # Long lines
//
// The cost of a Claim does not grow with the number of events of a key. A Claim parks due events that wait behind
// another event of their key: it moves their due_at ahead by one to two hours. The settlement of the event before makes
// each due again, in the same transaction. This is two more writes for an event of a long line, once. A Claim that
// finds a hundred thousand such events takes some seconds, in steps of a thousand. It returns after fifty steps, and
// the next one goes on. If another program deletes the first event of a line, the line stands still for one to two
// hours.
//
// A key that [outbox.HoldKeys] keeps behind a dead letter costs each Claim a read of the first event behind it.
//
// # Notifications
//
// Enqueue and Redrive notify the relays with pg_notify, which takes effect with the commit. A relay listens on a
// connection of its own beside the pool. In Postgres transactions that notify commit one after the other, in the whole
// database. A service with a very high rate of commits uses [WithoutNotify]: its relays poll.
//
// WithoutNotify is also for transaction poolers, through which LISTEN does not work. Without it the relay polls as
// well, and leaves a LISTEN in a session of the pooler, where notifications collect. A pooler that can't keep prepared
// statements needs default_query_exec_mode=exec in the connection string.
package pgoutbox
