// Package servertest is a test server that loses, delays and garbles its responses, as networks and providers do.
// It also counts its effects: was there one refund?
//
// [New] starts it on a loopback socket, and [NewInMemory] on connections in memory that use a synctest bubble's
// clock. [Script] sets the faults for the requests of one idempotency key, step by step. [Server.Ledger] counts
// effects and requests separately:
//
//	srv := servertest.New(t, servertest.Script("k1", servertest.ResetAfterEffect(), servertest.OK()))
//	// … run the client under test against srv.URL …
//	srv.Ledger().AssertEffects(t, "k1", 1)
//
// [Serve] starts it for programs that are not tests, such as a server for tests of clients in other languages.
//
// Behind the faults is a service: redo's server middleware, over a store in memory, around a handler. Each run of
// the handler is an effect. [Handler], [WithStore] and [WithMiddleware] replace its parts. [Bare] removes the
// middleware, which shows how a client's retries affect a service without one.
//
// A scripted fault that does not occur fails the test, because a fault that never occurred proves nothing. The
// server checks each fault on the connection: bytes written, a reset made, no bytes before it.
//
// [Check] tests the other direction: it runs the cases of package conformance against a handler, with a subtest
// for each.
//
// The server works with any HTTP client: nothing here depends on redo's client. The server speaks HTTP/1.1. The
// names of this package are stable; the texts of its messages are not.
package servertest
