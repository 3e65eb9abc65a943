// Package oneevent checks the inbox under random lives of one event, or of two or three events of one order. Two
// consumer processes share a store, and with inbox.Accept a queue. A producer repeats its events, sometimes with
// another payload. Handlers succeed, fail, reject, panic and have no time left, before and after their effect.
// Operators list, redrive and drop events at any moment. Processes die, also within a handler, and are stopped for
// longer than a lease. Calls of the store and the queue are slow, fail, hang, and lose their responses.
//
// A seed decides all that is drawn. Time is virtual. Goroutines that wake at one instant run in any order, and the
// relay draws its pauses itself. So a seed does not always repeat its life.
//
// Inboxes of package inbox's New are checked. Packages verify and sim check those with transactions.
//
// # Rules
//
// The attempt's number is the handler's fence: the ledger refuses an attempt when a later one has begun. From the
// second attempt on a handler reads the ledger back first. So the gaps that package inbox documents lead to no second
// effect. Then these rules must hold:
//
//   - Each handler has a higher attempt number than those before it. The event has at most one effect, and one payload.
//   - A handler begins only after the earlier ones have ended, lost their lease, or died. So no operator takes an event
//     from a delivery that is under way.
//   - Processed and Replayed come only with the effect, and then no handler begins again.
//   - A dead letter begins no handler before a redrive, and a dropped event begins none at all. An event that rests
//     begins none but a redrive's.
//   - An event of an order begins only after those before it are settled, or dead if their order is not held.
//   - When the faults are over, each event is handled, dead or dropped, and an accepted or redriven one is not lost.
//     No event waits, and each dead letter is listed.
//
// Stores and queues that break their contract lead to lives that break a rule, and the checker must find each.
//
//	go test ./oneevent                                          some thousand lives
//	REDO_VERIFY_ROUNDS=100 go test -timeout 1h ./oneevent       a soak: 100 times as many
//	REDO_VERIFY_SEED=7 go test -run TestLives ./oneevent        the lives from that seed on
package oneevent
