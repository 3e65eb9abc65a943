// Package oneoperation checks the client under random lives of one operation. Two processes share a store, and call and
// resume the operation at one server. Requests are lost, delayed, repeated and refused by a gateway. Responses are lost
// and cut. The server responds with 503, with 429, with 409 while it works, and with final refusals and failures, which
// it remembers. It forgets a key after its retention, and lives are longer than that. Callers give up, a limiter delays
// attempts, and processes are killed and stopped. Calls of the store fail, hang, and lose their responses. A person
// settles or forgets the operation at times when nothing is under way. Half of the lives have a probe. In half,
// a person also acts while a Resume waits. It must then send nothing. No process is stopped and no read fails there.
//
// A seed decides all that is drawn. Time is virtual. Goroutines that wake at one instant run in any order, so a seed
// does not always repeat its life.
//
// # Rules
//
// The server has at most one effect for a key that it remembers. Person and probe are honest: they report an effect
// that is in the ledger, and deny one only if no request is on the wire. Then these rules must hold:
//
//   - The operation has at most one effect, under whatever keys.
//   - No request is sent under a second key while one under another key has had its effect or can still have it.
//   - No key is sent after its retention.
//   - A success, or the effect Applied, is reported only if the effect has happened.
//   - NotApplied is reported only if no effect has happened, and no request on the wire can still have it.
//   - After a final refusal that a caller saw, no effect comes under a key that was sent before. After a person settled
//     the operation as not applied, or forgot it, none comes from a Resume under a key that was made before, unless a
//     call has sent that key since.
//   - All successes are the same bytes, those of the effect.
//   - A finding and a settled state are never overwritten. An operation that was not applied may start anew.
//   - When the faults are over, and a person has settled what rests unknown, a call gets a final result, and nothing
//     stays pending.
//
// A report is checked at the instant at which it comes. ResumeEvery reports an attempt after it has kept the time of
// the next one. If another process has sent a request meanwhile, NotApplied is not checked. Stores, servers, clients
// and probes that break their contract lead to lives that break a rule, and the checker must find each.
//
//	go test ./oneoperation                                          some thousand lives
//	REDO_VERIFY_ROUNDS=100 go test -timeout 1h ./oneoperation       a soak: 100 times as many
//	REDO_VERIFY_SEED=7 go test -run TestLives ./oneoperation        the lives from that seed on
package oneoperation
