// Package server makes HTTP handlers safe to repeat. Its middleware runs a handler once for each
// Idempotency-Key, keeps the response, and answers every repetition of the request with it:
//
//	mux.Handle("POST /refunds", server.Middleware(st, server.Required())(createRefund))
//
// Most programs need [Middleware], [Required] and [Principal]; a program that wants to see a wrong option before it
// serves calls [New] instead. A handler that asks for nothing needs no change; one that wants to can read its
// [Key], say when it has made its effect ([Store]), or that it has not ([Release]).
//
// # What is promised
//
// A key names one request within its scope: the route's pattern and the principal. The same request again gets the
// same status, the same end-to-end headers and the same bytes. Another request under the key is refused (409), and
// so is the same one while the first is still running. The handler is never run without its key reserved, nor is its
// response written before the store has it; when the store can't be reached the answer is 503, unless the route
// asks for [FailOpen].
//
// One gap is left: a process that dies between its effect and the record of it. Whoever comes next with the key
// takes it over, and [TakeOver] says what happens then.
//
// A handler whose effect is a write to the store's own engine closes the gap with [Transactional]: what it writes through
// the transaction that [Tx] gives to it is committed together with the record, or neither is.
//
// # Where it stands
//
// Wrap each route, inside the mux, so that http.Request.Pattern is known: wrapped around a mux the scope falls back
// to the method and the raw path. Authentication, rate limits, CORS and compression belong outside: they run for a
// replay too, so that a principal who has lost its rights gets no replay. What they set on the response is
// made anew for a replay and not stored. The handler never sees Accept-Encoding, so that what is stored suits every
// client. It must not need http.Hijacker. What it flushes is held back until the response is recorded, and trailers
// reach the first caller alone.
//
// # Bodies
//
// The body of a request with a key is read whole, up to [MaxBody], and identified by a hash of its bytes. A
// multipart body has another boundary in each attempt of most clients, and a compressed one may have other bytes:
// give [Fingerprint] a function that hashes what counts.
//
// Everything in this package may be used concurrently.
package server
