// Package conformance holds the rules of the Idempotency-Key as black-box cases, and runs them against any URL:
//
//	target, err := conformance.ReadTarget(file)
//	report, err := conformance.Run(ctx, target)
//	fmt.Println(report.Headline(false))
//	os.Exit(report.ExitCode(false))
//
// Most programs need [ReadTarget], [Run] and [Report]. [Cases] returns the rules. Each case has a slug that never
// changes its meaning, a level, its sources, and an explanation.
//
// # The proof behind a verdict
//
// A comparison of two responses proves nothing alone: a server that forgets every key and always returns "ok"
// passes every such comparison. A verdict about a replay needs one of two proofs. Either the target's effects were
// counted and there was one, or two operations got different responses. Without either proof the verdict is
// [Inconclusive], and never a pass. A case is skipped if the target does not declare something that the case
// needs. The report names the missing declaration.
//
// # Fairness
//
// Servers that keep the rules differ in much else, so a run learns before it judges. It learns whether the counter
// counts. It learns the effects and the response of each variant of the operation under a fresh key. It also
// learns how a replay differs from a first response. The rules of redo apply if the profile requires them, or if
// the server sends the headers of redo. One deviation is one failure, because cases depend only on the controls.
// The run sends a request again if the target refuses it because of load (429 or 503). A 503 without Retry-After
// is a result if it stays for more than a second. A case that fails runs again with no other traffic. If it then
// passes, the case is a warning and the report gives the reason.
//
// # Severity
//
// More effects than keys are a failure in every case that counts them, and no second run excuses it. At the end of
// the run the first keys are replayed, and the effects of every case are counted again. That finds forgotten
// records and late effects.
//
// # Requests on the wire
//
// The package writes each request byte by byte on its own connection. So keys can have bad bytes, bodies can end
// in the middle, and racing requests can wait for each other with all but their last byte written. A proxy inside
// this package loses responses: it reads the whole response and then resets the connection. The target needs no
// changes. The client speaks HTTP/1.1, with or without TLS.
//
// # Reports
//
// A report holds, for each case, the exchanges as they were on the wire, with their times. The values of
// Authorization, of cookies, of the principals' headers and of the target's secret headers are masked wherever
// they occur. Keys and payloads are fresh in every run. Everything else follows from one seed.
//
// Everything in this package may be used concurrently.
package conformance
