// Package redo makes HTTP calls that are safe to repeat. Each operation takes effect once, even if a payment times
// out, a process is killed or a phone retries.
//
// Most programs need two calls. [WithOperation] names an operation, and [Call] sends it as JSON:
//
//	ops, err := boltstore.Open("payments.redo") // operations survive a crash
//	client, err := redo.New(redo.WithStore(ops))
//
//	ctx = redo.WithOperation(ctx, "refund:ch_9ab:1000") // same name, same key
//	refund, err := redo.Call[Refund](ctx, client, "POST", url, RefundRequest{Amount: 1000})
//
// The client makes the operation's Idempotency-Key once, and writes it durably before the first byte is sent. Every
// retry sends the same key. Every later call with the same name sends it too, even after a restart.
//
// # Do or Transport
//
// [Client.Do] sends any *http.Request. It returns an [*Error] for every failure, and for every status of 400 and
// above. A caller of Do or Call states that the server honours keys, so a request without a name gets a key too.
//
// [Client.Transport] goes under another SDK and has net/http's semantics: a status of 400 and above is no error. Only
// a named request gets a key, unless [WithKeys] or [WithProfile] states that the server honours keys. [WithReport]
// shows redo's own error and the attempts of a call. The SDK sets the time limits.
//
// # Failures
//
// An [*Error] has a taxonomy code, the attempts, and the effect: [NotApplied], [EffectUnknown] or [Applied].
// [SafeToRetry] reports whether to make the same call again.
//
// After a crash run the same code again, or continue the pending operations with [Client.ResumeEvery]. To choose
// them, use [Client.Pending] and [Client.Resume]. If the outcome of an operation stays unknown, a person settles it
// with [Client.Settle], or a function set with [WithProbe] does.
//
// # When it is safe
//
// A repetition is safe if the server honours the key and remembers it for at least as long as the operation is
// pending. Profile.Retention is the time for which the server remembers a key. The client does not resend a key that is
// about to reach that age. It never gives an unsettled operation a second key. Package profile describes public APIs.
//
// Without a store a key lasts for one call, unless [DerivedKeys] makes it from the name or [WithKey] sets it.
//
// # What is stable
//
// The package follows semantic versioning. Until v1 a minor version may change exported names. Taxonomy codes and the
// keys of [DerivedKeys] never change. A record of another version is an error, and no new operation unless it failed.
//
// # Reading the source
//
// A call goes through client.go, call.go, operation.go, keys.go, loop.go and attempt.go. A stored operation also goes
// through stored.go and settle.go. docs/architecture.md names the functions, and the packages that they use.
package redo
