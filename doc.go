// Package redo makes HTTP calls that are safe to repeat: a payment times out, a process is killed, a phone
// retries, and each logical operation still takes effect once.
//
// The caller names an operation, and sends its request:
//
//	ops, err := boltstore.Open("payments.redo") // operations survive a crash
//	client, err := redo.New(redo.WithStore(ops))
//
//	ctx = redo.WithOperation(ctx, "refund:ch_9ab:1000") // same name, same key
//	refund, err := redo.Call[Refund](ctx, client, "POST", url, RefundRequest{Amount: 1000})
//
// The operation's Idempotency-Key is made once and written durably before the first byte is sent; every retry,
// and every later call of the same name, after a restart too, sends it again. [Client.Do] is the same for any
// *http.Request, and [Client.Transport] for any other SDK. After a crash run the same code again, or list what
// is pending with [Client.Pending] and continue it with [Client.Resume].
//
// Every failure is an [*Error] that says what failed (a taxonomy code), what was tried, and whether the effect
// happened: [NotApplied], [EffectUnknown] or [Applied]. [SafeToRetry] answers whether to call again.
//
// It is safe as long as the server honours the key for at least as long as the operation is pending: the
// [Profile] says for how long that is, and the client never resends an older key. Without a store a key lasts
// for one call; see [WithStore] and [DerivedKeys].
//
// The package follows semantic versioning: until v1 a minor version may change what is exported.
package redo
