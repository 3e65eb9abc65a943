// Package inbox is the consumer's side of webhooks and events. It runs a handler once for each event, however often
// the event is delivered, and keeps failed events for an operator.
//
// Most programs need two calls: [New] over a store, and then [Inbox.Receive] for an event from a queue or
// [Inbox.Handler] for one from HTTP:
//
//	events, err := inbox.New(st)
//	mux.Handle("POST /webhooks/bank", verifier.Handler(events.Handler(inbox.Delivered("bank"), apply)))
//
// [NewTransactional] is for stores whose records commit with the handler's own writes.
//
// # What is promised
//
// An event is its source and its id. While one delivery of an event is being handled, another is refused and must be
// repeated. Once the event is handled, every further delivery is acknowledged and not handled. The same id with
// another payload is a conflict for as long as the record is kept. The order of events is not assumed.
//
// A delivery is acknowledged only after its outcome is on record. With [Transactional] the record and the handler's
// writes are one commit. No crash then loses an acknowledged event or applies one twice. An [Inbox] leaves one gap.
// If its process dies between the handler's effect and the record, or can't reach the store then, another attempt
// follows.
//
// # Attempts and dead letters
//
// Each attempt is counted before the handler runs, in a commit of its own, so that neither a rollback nor a crash
// undoes the count. After a failed attempt the event rests ([Backoff]): other deliveries are refused with the
// remaining time. The inbox itself retries nothing. The producer or the queue delivers again, by its own schedule.
//
// An event becomes a dead letter after [MaxAttempts] attempts, crashed ones included, or when the handler returns
// [Reject]. Its payload and its last error are kept, its record is settled as failed, and the delivery is
// acknowledged. [Inbox.DeadLetters] lists the letters, [Inbox.Redrive] handles one again under its own source and id,
// and [Inbox.Drop] deletes one.
//
// A [TxHandler] must not end its transaction. If it does, the effect of the event is unknown. The event immediately
// becomes a dead letter that is Unknown. No delivery and no Redrive handles it again. An operator finds out whether
// the effect was made, and then calls [Inbox.Drop] if it was, or [Inbox.RedriveUnknown] if it was not.
//
// # Records in the store
//
// Each event has one record, in the scope "inbox/" and the source, under the event's id. Its fingerprint is the
// payload's hash, and its meta counts the attempts. Its result holds the times at which the event was received and
// settled, the number of attempts, and the error. A dead letter is a second record, in the scope "inbox-dead/" and
// the source. It is pending and has no lease, so that a store lists it. Its meta holds the payload.
//
// The letter is written before the event is settled, and deleted after a redrive is settled. A crash in between
// leaves a letter of an event that is not settled as failed. So does a delivery that is handled after the event's
// record has expired. While the event is remembered, a redrive deletes such a letter and handles nothing. After the
// retention a redrive is another attempt.
//
// The store settles the event of an unknown outcome with store.UnknownOutcome before its letter is written. After a
// crash in between, the next delivery writes the letter. The letter itself is marked as Unknown, because it outlives
// its event's record. If such a letter is dropped, a third record in the scope "inbox-gone/" and the source records
// that for as long as the event is remembered.
//
// Everything in this package may be used concurrently.
package inbox
