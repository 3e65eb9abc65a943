// Package taxonomy classifies the response to an HTTP attempt. The verdict is a stable code, whether the same
// request under the same key can succeed later, and whether the operation took effect.
//
// Most programs need two calls. errors.Is finds failures by code or by family:
//
//	errors.Is(err, taxonomy.RateLimited) // too many requests
//	errors.Is(err, taxonomy.Validation)  // any error in the input
//
// [Code.Hint] returns advice for the caller. [Classify] serves authors of other clients: it is the pure function
// from one attempt's [Answer] to its [Verdict].
//
// The strongest evidence decides, in this order:
//
//   - the caller's own context;
//   - the codes that are never retried: [PayloadMismatch], [KeyExpired], [OutcomeUnknown], [ResultNotStored];
//   - a server's should-retry directive;
//   - the code in the Error-Code header or in the body;
//   - the status;
//   - the kind of the transport error, found with errors.Is and errors.As or by its structure, never by its text.
//
// The package knows the documented error words of many public APIs, from Stripe's idempotency_key_in_use to
// the exceptions of AWS. [Answer].Codes, StatusCodes, Markers and Directives add one provider's own dialect.
//
// [NotApplied] is claimed only when it is certain. The effect is [EffectUnknown] whenever the request may have
// reached work. Examples are a 409 without a recognized code, a redirect that was not followed, and a word for an
// operation that is still running. Only a 2xx is a result.
//
// Codes are stable: none is ever removed or given another meaning. New ones may appear below the families.
// testdata/taxonomy.json holds the rules as data for clients in other languages. testdata/providers.json holds the
// responses of real APIs with their sources. The package depends on the standard library alone, keeps no state, and
// may be used concurrently.
package taxonomy
