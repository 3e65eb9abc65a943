// Package inbox is the consumer's side of webhooks and events. It runs a handler once for each event, however often
// the event is delivered, and keeps the events that failed.
//
// Most programs need two calls: [New] over a store, and then [Inbox.Receive] for an event from a queue or
// [Inbox.Handler] for one from HTTP:
//
//	events, err := inbox.New(st)
//	mux.Handle("POST /webhooks/bank", verifier.Handler(events.Handler(inbox.Delivered("bank"), apply)))
//
// [NewTransactional] is for stores whose records commit with the handler's own writes. [Accept] acknowledges an event
// before it is handled.
//
// # What is promised
//
// An event is its source and its id. While one delivery of an event is being handled, another is refused and must be
// repeated. Once the event is handled, every further delivery is acknowledged and not handled. The order of events is
// not assumed.
//
// The same id with another payload is a conflict until the event is settled or a dead letter. After that it is
// acknowledged and not handled, because the producer can't mend it. The receipt, the [Observer] and the [Logger] report
// it. A producer that has mended an event sends it under a new id.
//
// A delivery is acknowledged only after its outcome is on record. With [Transactional] the record and the handler's
// writes are one commit. No crash then loses an acknowledged event or applies one twice.
//
// An [Inbox] leaves two gaps. Another attempt follows if its process dies between the handler's effect and the record,
// or if the store does not take the record within StoreTimeout. A process that is paused for longer than [LeaseTTL]
// does not see that another delivery has begun. Both attempts can then make the effect.
//
// # Attempts and dead letters
//
// Each attempt is counted before the handler runs, in a separate commit, so that neither a rollback nor a crash
// undoes the count. After a failed attempt the event rests ([Backoff]): other deliveries are refused with the
// remaining time. The inbox itself retries nothing. The producer or the queue delivers again, by its own schedule.
//
// The payload is stored with the count from the first failed attempt on. [Inbox.Waiting] lists these events. If a
// producer has given up, [Inbox.Redrive] handles its event all the same.
//
// An event becomes a dead letter after [MaxAttempts] attempts, crashed ones included, or when the handler returns
// [Reject]. The delivery is acknowledged. [Inbox.DeadLetters] lists the letters, [Inbox.Redrive] handles one again
// under its own source and id, and [Inbox.Drop] gives one up.
//
// A [TxHandler] must not end its transaction. If it does, the effect of the event is unknown. The event immediately
// becomes a dead letter that is Unknown, and is never handled again. An operator finds out whether the effect was
// made, and calls [Inbox.Drop]. If it was not made, the operator also forgets the event's record (store.Forgetter)
// and delivers the event again.
//
// # Accepted events
//
// An [Acceptor] writes the event into a queue of package outbox and acknowledges it. Run then hands the event to the
// inbox. The queue has the schedule, the ordering keys and the dead letters. The inbox has the deduplication, and the
// transaction if it is [Transactional]. A process may die at any point: every acknowledged event is handled, and in a
// transaction once.
//
// # Records in the store
//
// Each event has one record, in the scope "inbox/" and the source, under the event's id. Its fingerprint is the
// payload's hash. While the event is not settled, the record's meta holds the count of attempts, the last error and
// the payload. So a dead letter is one write, and a store lists it as pending. The result of a settled event holds two
// times and the number of attempts: when the event was received, and when it was settled. The result of an event that
// was dropped holds its error too.
//
// The store settles an event of an unknown outcome with store.UnknownOutcome. Its letter is a second record, in the
// scope "inbox-unknown/" and the source. If the process dies before it has written the letter, the next delivery
// does.
//
// Everything in this package may be used concurrently.
package inbox
