// Package server makes HTTP handlers safe to repeat. Its middleware runs a handler once for each Idempotency-Key,
// stores the response, and replays it for every repetition of the request:
//
//	once := server.Middleware(st, server.Required(), server.Principal(customer))
//	mux.Handle("POST /refunds", once(http.HandlerFunc(createRefund)))
//
// Most programs need [Middleware], [Required] and [Principal], which returns the customer of a request. A program
// whose callers share one key space gives [SharedKeys] instead. With neither of the two the middleware refuses to
// serve. [New] returns an error for a wrong option, before the program serves. A handler needs no change. It can read
// its [Key], and report the state of its effect: [Applied], [Release], [Fail] or [Unknown].
//
// # What is promised
//
// A key names one request within its scope: the route and the principal. The same request again gets the same status,
// the same end-to-end headers and the same bytes. Another request under the key is refused with 409. So is the same
// one while the first is still running. The handler runs only after its key is reserved. Its response is sent only
// after the store has recorded it. If the store can't be reached, the response is 503, unless the route has
// [FailOpen]. A 5xx, and a status that [DefaultKeep] names, releases the key: the same request again runs the handler.
//
// # When the store or the handler fails
//
// If the store does not accept the outcome of a handler, the middleware repeats the write for [StoreTimeout]. The
// client then gets 503 with Retry-After, and the middleware keeps the key and goes on in the background. No outage
// makes the handler run twice in a process that knows of the first run. There are two exceptions: more keys wait than
// the Limit of its [Background], or StoreTimeout is not below LeaseTTL. A program that stops calls
// [Background.Shutdown].
//
// An outage that lasts longer than the lease hides the first run from other processes. On a platform that stops the
// process between requests, as AWS Lambda does, a shorter one does so too. A handler closes that gap by calling
// [Applied] after its effect. Applied returns after the mark is in the store, and the handler never runs again for a
// marked key.
//
// A handler that panics releases its key, unless it has called Applied or written a status below 400. If a handler's
// time ends before it has written anything, the client gets 504 and the key is released. In both cases, on a route
// with [Refuse] or [Recover], the key is not released and the policy decides about the retry.
//
// A handler that writes nothing at all is a mistake in the wiring: its framework hides the response. The client gets
// 500, the log gets an error, and the handler never runs again for the key. [SilentOK] is for handlers that respond
// with an empty 200.
//
// # Two gaps
//
// A process that dies between its effect and its record leaves a key whose effect is unknown. The next request with
// the key takes it over, and [TakeOver] decides whether the handler runs. A later 5xx or panic does not release such a
// key, and the next request takes it over again.
//
// A virtual machine's snapshot or SIGSTOP can pause a process for longer than its lease. When the process continues,
// it does not see that another one has taken its key over, and makes its effect. [Fence] closes this gap for effects
// in the service's own database: the database refuses the write of an old owner.
//
// [Transactional] closes both for a handler whose effect is a write to the store's own engine. [Tx] returns a
// transaction. The handler's writes through it are committed together with the record, or not at all.
//
// # Time limits
//
// Use [HandlerTimeout] to bound a handler: its context ends, and the middleware waits until it returns. Do not put
// http.TimeoutHandler between the middleware and the handler. It returns while the handler is still running, so the
// effect is unknown. It also drops what a handler wrote before a panic. The middleware detects both, logs an error, and
// refuses every retry with 409, code CONFLICT.idempotency.outcome_unknown. Outside of the middleware
// http.TimeoutHandler is harmless. The same is true of fiber's timeout. The middleware can't detect any other
// middleware that returns before its handler. Do not use one.
//
// # Scope
//
// The scope of a key is the pattern that the mux has matched, or the name given to [Route], and the principal. A
// pattern with a host keeps the hosts of a mux apart. Under a pattern without a host, all hosts of a service share
// their keys, so that a client can retry at another host. If the handler's effect depends on the host, let Principal
// return the host too. Outside of a mux, where there is no pattern, all paths share one scope for each method.
// [Scope] adds the name of the service, for services that share the records of one store.
//
// # Where it belongs
//
// Wrap each route, inside the mux, so that http.Request.Pattern is known. Authentication, rate limits, CORS and
// compression belong outside. They run for a replay too, so that a principal that has lost its rights gets no replay.
// The headers that they set are not stored, but set again for a replay. If the handler deletes such a header, the
// replay lacks it too.
//
// The handler never sees Accept-Encoding, so that the stored response suits every client. It never sees Upgrade: a
// connection that changes its protocol has no response to record. It must not need http.Hijacker. Flushed bytes are
// held back until the response is recorded. Only the first caller gets trailers.
//
// # Bodies
//
// The body of a request with a key is read whole, up to [MaxBody], and identified by a hash of its bytes. Most
// clients choose another boundary for a multipart body in each attempt, and a compressed body may have other bytes.
// Give [Fingerprint] a function that hashes the significant content. The handler's request has a GetBody, so that the
// handler can forward it. A layer outside that replaces the body must correct the request's ContentLength or delete its
// header Content-Length. Otherwise the body counts as cut off, and the response is 400.
//
// A client that announces a large body and sends none costs a buffer of 64 KiB: larger ones are made as the data
// arrives. It also costs a connection. An http.Server has no time limits by default. Set ReadHeaderTimeout,
// ReadTimeout, which bounds the whole body, and IdleTimeout. A WriteTimeout must be longer than ReadTimeout, Wait,
// HandlerTimeout and twice StoreTimeout together, or the connection ends before the response.
//
// # Options
//
//   - Owner of a key: [Principal] or [SharedKeys], [Route], [Scope], [Pepper].
//   - Requests with a key: [Required], [Methods], [Skip], [Header], [KeyFormat], [UUIDKeys].
//   - Sameness of requests: [CanonicalJSON], [Fingerprint], [MaxBody].
//   - Stored responses: [Keep], [Retention], [RefuseExpiredKeys], [MaxResponse], [ReplayHeader], [SilentOK]; for one
//     response [KeepFor].
//   - The run of the handler: [HandlerTimeout], [CancelOnDisconnect], [LeaseTTL], [TakeOver], [Transactional].
//   - Failures of the store: [StoreTimeout], [RunIn], [FailOpen].
//   - Keys in flight: [Wait], [MaxWaiters], [MaxWaitersPerPrincipal], [MaxWaitersPerKey].
//   - Refusals: [Refusal], [IETFStatuses], [InFlightStatus].
//   - Operation: [Logger], [Observe].
//
// [StatusHandler] takes the options of a route, and reports to a principal the state of its keys.
//
// Everything in this package may be used concurrently.
package server
