// Package store is the contract between redo and the engines that hold its records. There is one record per
// idempotency key, operation or event. It is reserved before the work and settled after it.
//
// One contract serves three users: server requests, client operations and consumer events. [Store] defines it.
// Packages such as memstore and boltstore implement it, and storetest tests an implementation. Most programs only
// open a store and pass it to redo.WithStore or server.Middleware.
//
// A claim with a lease excludes others. While the lease is live, no other claim acquires the ID. A claim without a
// lease never excludes. The next claim takes the record over and gets its meta. Server requests and events use
// leases. Client operations do not, because the server excludes.
//
// Every lease has a fence, a number that only grows for an ID, even after release, expiry and take-over. Extend,
// Complete and Release compare it with the record's, so that an owner that lost its lease changes nothing.
//
// Outside the standard library the package depends on jsontext of github.com/go-json-experiment/json alone, for
// [CanonicalJSON]. All of it but a [Tx] may be used concurrently.
package store
