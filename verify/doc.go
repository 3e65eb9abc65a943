// Package verify checks the stores against a model of their contract, in two ways. A history of concurrent calls
// must be linearizable: there has to be an order of the calls, in keeping with who returned before whom began, in which
// the model gives every answer that was given (github.com/anishathalye/porcupine finds it). And a random
// sequence of calls, one at a time, must get from a store the very answers of the model (pgregory.net/rapid makes
// it, and shortens the one that fails).
//
// Where storetest states each rule by an example, this looks for what nobody thought of: calls that overlap, answers
// that were lost, contexts that end halfway. The checkers are themselves checked on stores that are broken on purpose.
//
//	go test ./verify                                       some seconds
//	REDO_VERIFY_ROUNDS=100 go test -timeout 1h ./verify    a soak: so many times as many histories
//	REDO_VERIFY_SEED=7 go test -run TestHistories ./verify the histories from that seed on
//
// A history that is not linearizable is drawn as an HTML page, which the failure names. What rapid finds it reports with
// the flags that run it again.
//
// # Time
//
// memstore and boltstore run on the virtual clock of a testing/synctest bubble, so that leases end and records
// expire in their histories at instants that the model knows to the nanosecond. Redis and Postgres keep clocks of their own:
// there leases and retentions are none or hours long, so that the model knows whether they are over without knowing
// the time. Expiry on those is checked call by call, with a retention of a millisecond that is waited for, and by storetest.
//
// # The client
//
// Package schedule, below this one, checks the client: several processes, one operation, random schedules. Package sim
// runs clients, gateways, servers, relays and consumers together in virtual time.
//
// It is a module of its own and is never released, so that what it imports binds nobody.
package verify
