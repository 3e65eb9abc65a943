// Package store is the contract between redo and what keeps its records: one record per idempotency key,
// operation or event, reserved before the work and settled after it.
//
// One contract serves three users: server requests, client operations and consumer events. [Store] states
// it; memstore, boltstore and others implement it; storetest proves an implementation. Most programs only
// open a store and hand it to redo.WithStore or server.Middleware.
//
// A claim with a lease excludes: while the lease is live nobody else acquires the ID. A claim without a lease
// never excludes: whoever reserves next takes the record over and gets its meta. Server requests and events
// use leases; client operations do not, since the server is what excludes them.
//
// Every lease carries a fence, a number that only grows for an ID, over release, expiry and take-over too.
// Extend, Complete and Release compare and set on it, so an owner that lost its lease changes nothing.
//
// The package depends on the standard library alone. All of it may be used concurrently.
package store
