// Package onerequest checks the gateway under random lives of one request of a phone. Two gateway processes share a
// store. The phone repeats its request on any of them, sometimes with another payload, gives up, and asks for the
// request's state. The upstream server honours keys. It is slow, refuses, releases a key, fails before and after the
// effect, and loses requests and responses. Processes die, and are stopped for longer than a lease. Calls of the store
// are slow, fail, hang, and lose their responses.
//
// A seed decides all that is drawn. Time is virtual. Goroutines that wake at one instant run in any order, and the
// client draws its pauses itself. So a seed does not always repeat its life.
//
// # Rules
//
//   - The upstream gets one key, and never a request without one. The request has at most one effect.
//
//   - A success names the effect, and its payload is the phone's. Two successes are equal.
//
//   - A refusal of the upstream comes only if there is no effect, and none follows.
//
//   - "Nothing was done" comes only if there is no effect, and none follows unless the phone repeats its request.
//
//   - A state of "complete" comes only with an effect, and one of "failed" only without.
//
//   - When the faults are over, a phone that repeats its request gets its response. If it does not, Run completes what
//     is pending.
//
//     go test ./onerequest                                           some thousand lives
//     REDO_VERIFY_ROUNDS=100 go test -timeout 1h ./onerequest        a soak: 100 times as many
//     REDO_VERIFY_SEED=7 go test -run TestLives ./onerequest         the lives from that seed on
package onerequest
