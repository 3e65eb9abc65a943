// Package console shows operators the work that has stopped, and lets them act on it in a browser. It lists pending
// and unknown operations, waiting and dead events, disabled destinations and the letters of an inbox. Each has its
// cause: a code of package taxonomy and the code's hint.
//
// Most programs need one call. The result is an [http.Handler] that works below any path:
//
//	ops, err := console.New(console.Operations(client), console.Events("outbox", queue), console.Authenticate(login))
//	mux.Handle("/console/", http.StripPrefix("/console", ops))
//
// An operator resumes an operation, settles it with evidence, forgets it, redrives dead letters, or enables a
// destination. Every act is reported to the function of [Audit] with its author.
//
// # Access
//
// [Authenticate] lets a request in, and names the author of its act. Without it, the console serves only
// requests from this machine whose Host is this machine: a loopback address or localhost. This keeps out web sites
// that rebind their name to a loopback address. A form from another origin is refused ([http.CrossOriginProtection]).
//
// # Secrets
//
// Payloads and responses are hidden by default, see [ShowBodies]. The user, password and query of a URL are always
// hidden. So are headers.
//
// # Limits
//
// A page has at most 100 rows. A list and the overview examine at most 5,000 records at a time, so that a full store
// does not slow them down. Everything in this package may be used concurrently.
package console
