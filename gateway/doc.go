// Package gateway is a reverse proxy that makes the requests of mobile apps safe to repeat. A phone on a bad connection
// sends a request twice, or loses the response. The upstream service still makes the effect once, and the phone gets
// the response.
//
// Most programs need [New], which returns an http.Handler for one upstream, and [Gateway.Run]:
//
//	g, err := gateway.New(upstream, st, gateway.Principal(user), gateway.Secret(secret))
//	go g.Run(ctx) // continues the operations of a crashed gateway
//	err = http.ListenAndServe(addr, g)
//
// # What is promised
//
// A request with an Idempotency-Key runs once for each principal and key. The gateway stores the request before the
// first byte goes upstream, and retries it under one upstream key. It sends the upstream's response to every
// repetition. A phone that disconnects does not stop the request. If the gateway's process dies, any gateway over the
// same store continues the request. The upstream must honour Idempotency-Keys. A request without a key, or with a body
// that is streamed, ends when its phone disconnects, and its effect is then unknown.
//
// The phone's key is never sent upstream. The upstream key is the HMAC-SHA256 of the principal and the phone's key. Two
// phones with the same key never meet, and no phone can choose the key of another.
//
// A request without a key gets a new upstream key. The gateway retries it under that key, but it can't recognize a
// repetition by the phone, unless [RequestID] makes the key of the app's own request id. GET and HEAD need no key.
// [Hedge] sends a second one to a slow upstream.
//
// # Large uploads
//
// A body of more than 64 KiB is not stored: after a crash only the phone's repetition continues its request. A body of
// more than [MaxBuffered] bytes is streamed to the upstream and never held in memory. Such a request has its
// upstream key, but the gateway neither stores nor retries it. If the phone disconnects, it sends the request again,
// and the upstream recognizes the key.
//
// # Credentials
//
// The phone's headers go upstream, with its credentials. Credentials are never stored. To continue an operation
// after a crash, the gateway needs its own credentials: add redo.WithCredentials to [Client]. Without them an
// operation of a phone that sent credentials waits until the phone repeats it. All other headers are stored,
// unless [Client] has a redo.Profile without KeepHeaders.
//
// # Several gateways
//
// All gateways that share a store share its operations. Each needs the same [Secret]. A bbolt file belongs to one
// process; use Redis or Postgres for several.
//
// A Gateway may be used concurrently.
package gateway
