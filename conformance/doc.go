// Package conformance holds the rules of the Idempotency-Key as black-box cases, and runs them against any URL:
//
//	target, err := conformance.ReadTarget(file)
//	report, err := conformance.Run(ctx, target)
//	os.Exit(report.ExitCode(false))
//
// Most programs need [ReadTarget], [Run] and [Report]. [Cases] returns what there is to be kept: each case has a slug
// that never changes its meaning, a level, its sources, and an explanation.
//
// # What a verdict is worth
//
// A comparison of two responses proves nothing by itself: a server that forgets every key and always says "ok" passes
// them all. So a verdict about a replay counts only when the target's effects were counted and there was one, or when
// two operations were seen to get different responses. Without either it is [Inconclusive], and never a pass. What
// the target does not declare is skipped, and the report says so.
//
// # What is sent
//
// Requests are written byte by byte on connections of their own, so that keys can have bad bytes, bodies can end in the
// middle, and racing requests can wait for each other with all but their last byte written. Lost answers come from a
// proxy inside this package, which reads the whole response and then resets the connection: nothing has to be built
// into the target. The client speaks HTTP/1.1, over TLS too.
//
// # What is written down
//
// A report has, for each case, the exchanges as they were on the wire, with their times. The values of Authorization, of
// cookies, of the principals' headers and of the target's secret headers are masked wherever they stand. Keys and
// payloads are fresh in every run; everything else follows from one seed.
//
// Everything in this package may be used concurrently.
package conformance
