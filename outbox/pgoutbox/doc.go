// Package pgoutbox is an [outbox.Queue] in a Postgres table: an event is enqueued in the pgx or database/sql transaction of
// the change that it tells of, and any number of relays, on any number of machines, deliver from it.
//
//	queue, err := pgoutbox.New(pool)
//	err = queue.Migrate(ctx)
//	id, err := queue.Enqueue(ctx, tx, outbox.Event{Destination: url, Payload: body})
//
// The table is made by [Queue.Migrate], or by the program's own migration tool from the text that [Migration] returns.
//
// # What is promised
//
// A call returns after Postgres has acknowledged its commit. Claims use FOR UPDATE SKIP LOCKED and look at each event's own
// state, never at a last one seen, so that an event whose transaction commits late is not skipped. That at most one event
// of an ordering key is under way is a unique index of the table: no race of claims gets around it. Leases and waits are
// judged by clock_timestamp() of the server.
//
// An event's place is drawn from a sequence when it is enqueued. Two transactions that enqueue for one key at a time can
// commit the other way round; lock something of the key's own before Enqueue where that matters.
//
// # Long lines
//
// What a Claim costs does not grow with the line of a key. Where many of the events that are due wait behind another of
// their key it parks them: due_at goes an hour or two ahead, and the settlement of the event before each makes it due again,
// in the same transaction. That is two writes more for an event of a long line, once; the claim that comes upon a hundred
// thousand of them takes some seconds, in steps of a thousand, and gives up for its caller's sake after fifty. An hour or two
// is also for how long a line stands still that loses its first event to anything but this package.
//
// A key that [outbox.HoldKeys] keeps behind a dead letter costs each Claim a look at the first event behind it.
//
// # Waking
//
// Enqueue and Redrive notify the relays with pg_notify, which takes effect with the commit; a relay listens on a connection
// of its own beside the pool. In Postgres transactions that notify commit one after the other, in the whole database, so
// that [WithoutNotify] suits those with a very high rate of commits: relays then poll.
//
// It suits transaction poolers too, through which nobody can listen: a relay whose queue does not know that polls all the same, and
// leaves a LISTEN in one of the pooler's sessions, which then collects notifications that nobody reads. Where the pooler can't keep
// prepared statements, set default_query_exec_mode=exec in the connection string.
package pgoutbox
