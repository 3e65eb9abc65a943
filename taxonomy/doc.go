// Package taxonomy says what an answer to an HTTP attempt means: a stable code, whether repeating the same
// request under the same key can help, and what is known of the operation's effect.
//
// Most programs need two calls. errors.Is tells failures apart, by code or by family:
//
//	errors.Is(err, taxonomy.RateLimited) // too many requests
//	errors.Is(err, taxonomy.Validation)  // the input is wrong, whatever is wrong with it
//
// and [Code.Hint] says what to do about one. [Classify] is for those who write a client of their own: it is the
// pure function from one attempt's [Answer] to its [Verdict].
//
// The weightiest evidence decides: the caller's own context, then the codes that are never retried
// ([PayloadMismatch], [KeyExpired], [ResultNotStored]), then a server's explicit should-retry directive, then the
// code in the Error-Code header or the problem document, then the status, then the kind of the transport error.
// Errors are told apart with errors.Is and errors.As or by their structure, never by their text.
//
// What is unclear is never called "not applied": [EffectUnknown] is the answer whenever the request may have
// reached work.
//
// Codes are stable: none is ever removed or given another meaning, and new ones may appear below the families.
// testdata/taxonomy.json holds the table as data, for clients in other languages. The package depends on the
// standard library alone, keeps no state, and may be used concurrently.
package taxonomy
