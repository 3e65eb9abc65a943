// Package schedule checks the client under random schedules. Several processes, each with its own client, call one
// operation over one store and one server. A scheduler decides the order of their steps. The order is a function of a
// seed.
//
// # Steps
//
// Each call of the store and each stage of a request on the wire is a step. Before a step its goroutine parks. The
// scheduler waits until every goroutine of the testing/synctest bubble is blocked. Then it draws one step and lets that
// goroutine go on to its next step. It also draws the faults, starts calls, ends contexts, kills and pauses processes,
// and lets virtual time pass. A failing seed fails again with the same steps, and the failure prints them.
//
// # Rules
//
// The checker knows the events at the server. It reports a run that breaks one of these rules:
//
//   - An operation has at most one effect, under whatever keys.
//   - An error reports NotApplied only if no effect has happened and no request under way can still have one.
//   - A success, or the effect Applied, is reported only if an effect has happened.
//   - After all faults, one more call succeeds or returns a final error. The operation is then no longer pending. If
//     the server does not mark its first responses, it takes two calls.
//   - No request is sent while a request under another key has had its effect or can still have it.
//
// The rules about the effect hold at the instant at which the call returns. A client can keep them: reference.go is a
// small client that does. Mutants of it, of the store and of the server break rules, and the checker must find each.
//
//	go test ./schedule                                          more than a million steps
//	REDO_VERIFY_ROUNDS=100 go test -timeout 1h ./schedule       a soak: 100 times as many runs
//	REDO_VERIFY_SEED=7 go test -run InMemory ./schedule         the runs from that seed on
package schedule
