// Package oneline checks the relay of package outbox under random lives of a few lines of events. Two relay processes
// share a queue. A producer enqueues the events one after the other, and repeats a call whose response was lost.
// Destinations accept, fail, reject, hang, ask for a wait, can't be reached, and are gone, each for a while. Operators
// list, redrive and drop events, and enable destinations at any moment. Processes die, also within a delivery, are
// stopped for longer than a lease, and end in order. Calls of the queue are slow, fail, hang, and lose their responses.
//
// A seed decides all that is drawn. Time is virtual. Goroutines that wake at one instant run in any order, and the
// relay draws its pauses itself. So a seed does not always repeat its life.
//
// # Rules
//
//   - No event is delivered that is sent, dead or dropped.
//   - Two processes deliver one event at a time only if one of them was stopped. One that knows that its lease is lost
//     does not count.
//   - An event of a line is delivered only after those before it are acknowledged or dropped. Dead ones count too if
//     their line is not held.
//   - An event has no more attempts than its schedule. An attempt that sent nothing is not one.
//   - A process has no more deliveries to a destination at a time than its limit, and none after Run has returned. Run
//     returns.
//   - When a destination is disabled, OnDisabled was called, unless a process died.
//   - When the faults are over, no event waits for ever, each is acknowledged or dropped, and each dead letter can be
//     redriven.
//
// Queues that break their contract lead to lives that break a rule, and the checker must find each.
//
//	go test ./oneline                                           some thousand lives
//	REDO_VERIFY_ROUNDS=100 go test -timeout 1h ./oneline        a soak: 100 times as many
//	REDO_VERIFY_SEED=7 go test -run TestLives ./oneline         the lives from that seed on
package oneline
