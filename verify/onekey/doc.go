// Package onekey checks the middleware under random lives of one key. Two processes serve one operation over one store,
// while clients repeat its request, and disconnect. Handlers call Checkpoint, Applied, Release, Fail and Unknown. They
// panic, have no time left, and write responses that are too long to be stored. Processes die, also within a handler or
// a function given to Recover, and are stopped for longer than a lease. Calls of the store fail, hang, and lose their
// responses.
//
// A seed decides all that is drawn. Time is virtual. Goroutines that wake at one instant run in any order, so a seed
// does not always repeat its life.
//
// # Rules
//
// The service's ledger refuses an owner of the key whose successor has come, by the fence. Each handler is honest: it
// reports no effect that it did not make, and denies none. After a take-over it does what its policy means. With
// Recover it finds the effect by the checkpoint alone. Then these rules must hold:
//
//   - The operation has at most one effect.
//   - A success that a client got names the effect, and every later one is the same bytes.
//   - After a refusal that a client got for good, the operation has no effect, and every later response is the same.
//   - A route that refuses take-overs never runs its handler for one.
//   - When the faults are over, a request gets a final response.
//
// Stores that break their contract lead to lives that break a rule, and the checker must find each.
//
//	go test ./onekey                                          some thousand lives
//	REDO_VERIFY_ROUNDS=100 go test -timeout 1h ./onekey       a soak: 100 times as many
//	REDO_VERIFY_SEED=7 go test -run TestLives ./onekey        the lives from that seed on
package onekey
