// Package verify checks the stores against a model of their contract, in two ways. A history of concurrent calls
// must be linearizable: some order of the calls explains every result, and a call that returned before another
// began comes first. Package github.com/anishathalye/porcupine finds that order. A random sequence of calls, one at a
// time, must return exactly the results of the model. pgregory.net/rapid makes the sequence, and shortens one that
// fails.
//
// storetest states each rule by an example. This package looks for cases that no example covers: calls that
// overlap, responses that are lost, contexts that end halfway. The checkers are themselves checked on stores that
// are broken on purpose.
//
//	go test ./verify                                       some seconds
//	REDO_VERIFY_ROUNDS=100 go test -timeout 1h ./verify    a soak: so many times as many histories
//	REDO_VERIFY_SEED=7 go test -run TestHistories ./verify the histories from that seed on
//
// A history that is not linearizable is drawn as an HTML page, which the failure names. The report of rapid names
// the flags that repeat the run.
//
// # Time
//
// memstore, boltstore and pebblestore run on the virtual clock of a testing/synctest bubble. Leases end and records
// expire at instants that the model knows to the nanosecond. The other engines have their own clocks. There each lease
// and retention is zero or hours long, so the model knows whether it is over without reading the clock. Expiry on
// those engines is checked in two other ways: call by call, with a retention of a millisecond that the test waits
// for, and by storetest.
//
// # Client and server
//
// Package schedule, below this one, checks the client: several processes, one operation, random schedules. Packages
// oneoperation, onekey, onerequest, oneevent and oneline check the client, the middleware, the gateway, the inbox and
// the relay on random lives of one operation, one key, one request, one event and one line. Package sim runs clients,
// gateways, servers, relays and consumers together in virtual time. Program crash runs them as processes over each
// store, and kills them.
//
// The module is never released, so its imports bind no user.
package verify
