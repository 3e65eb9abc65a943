// Package inbox is the consumer's side of webhooks and events: it runs a handler once for each event, however often the
// event is delivered, and keeps what can't be handled until somebody looks at it.
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
// An event is its source and its id. While one delivery of it is being handled another is refused, to come again; once
// it is handled every further one is acknowledged and not handled. The same id with another payload is a conflict, for
// as long as the record is kept. The order of events is not assumed.
//
// A delivery is acknowledged only once what came of it is on record. With [Transactional] the record and the handler's
// writes are one commit, so that no crash loses an acknowledged event or applies one twice. With an [Inbox] one gap is
// left: a process that dies between the handler's effect and its record, or can't reach its store then, is followed by
// another attempt.
//
// # Attempts and dead letters
//
// Each attempt is counted before the handler runs, in a commit of its own, so that neither a rollback nor a crash
// takes the count back. A handler that fails lets the event rest for a while ([Backoff]), for which other deliveries are
// refused with the time that is left. Nothing is retried here: the producer, or the queue, delivers again, which is
// the schedule that it has anyway.
//
// After [MaxAttempts] attempts, crashed ones included, or when the handler says [Reject], the event becomes a dead
// letter: its payload and its last error are kept, its record is settled as failed, and the delivery is acknowledged,
// since the event is now ours to keep. [Inbox.DeadLetters] lists them, [Inbox.Redrive] handles one again under its own
// source and id, and [Inbox.Drop] gives one up.
//
// A [TxHandler] that commits by itself, as it must not, and then fails leaves an event of which nobody knows what was done.
// It becomes a dead letter at once, whose Unknown is set: no delivery and no redrive handles it again. Somebody reads back what
// was done, and then calls Drop if the event has had its effect, or [Inbox.Reopen] if it has had none.
//
// # What stands in the store
//
// One record for each event, in the scope "inbox/" and the source, under the event's id: its fingerprint is the
// payload's hash, its meta counts the attempts, and its result says when it was received and done with, after how many
// attempts, and with what error. A dead letter is a second record, in the scope "inbox-dead/" and the source, that is
// pending and has no lease, so that a store lists it; its meta holds the payload.
//
// The letter is written before the event is settled, and deleted after a redrive is settled. A crash in between leaves
// a letter of an event that is not settled as failed, and so does a delivery that is handled after the event's record has
// expired. A redrive puts that right while the event is remembered, and handles nothing; after its retention a redrive
// is another attempt.
//
// The record of an event with an unknown outcome is settled with store.UnknownOutcome, before its letter is written: after a
// crash in between the next delivery writes it. The letter says itself that it is Unknown, and so outlives its event's record. When it
// is dropped a third record, in the scope "inbox-gone/" and the source, says so for as long as the event is remembered.
//
// Everything in this package may be used concurrently.
package inbox
