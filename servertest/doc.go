// Package servertest is a test server that loses, delays and garbles what it should answer, as networks and providers do,
// and that keeps count of what it did: did the refund happen once?
//
// [New] starts it on a loopback socket, [NewInMemory] on connections in memory that live on a synctest bubble's clock.
// [Script] says what becomes of the requests of one idempotency key, step by step, and [Server.Ledger] counts effects and
// requests apart from each other:
//
//	srv := servertest.New(t, servertest.Script("k1", servertest.ResetAfterEffect(), servertest.OK()))
//	// … run the client under test against srv.URL …
//	srv.Ledger().AssertEffects(t, "k1", 1)
//
// [Serve] starts it for programs that are no tests, such as one that clients in other languages are tried against.
//
// Behind the faults stands a service: redo's server middleware, over a store in memory, in front of a handler whose every
// run is an effect. [Handler], [WithStore] and [WithMiddleware] replace its parts, and [Bare] takes the middleware away,
// which shows what a client's retries do to a service without one.
//
// A scripted fault that does not come to pass fails the test: a test of a fault that never happened proves nothing. What
// can be seen on the connection (bytes written, a reset made, none written before it) is checked there.
//
// [Check] looks the other way: it holds a handler to the rules of package conformance, a subtest for each.
//
// Clients under test may be anyone's: nothing here depends on redo's client. The server speaks HTTP/1.1. The names of this
// package are stable; the texts of its messages are not.
package servertest
