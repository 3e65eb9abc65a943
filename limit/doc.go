// Package limit keeps the retries of many clients from becoming a storm.
//
// A failing server gets worse when its clients repeat their requests. Storm control bounds the attempts that a
// client adds. It has three mechanisms, and the client of package redo applies them:
//
//   - A [Budget] bounds the retries. It is always on: by default a fifth of the calls, and 100 more, may be
//     retried. [Budget.Unlimited] switches it off.
//   - A [Limiter] spaces the attempts. There is none by default. [PerDestination] makes one for each destination.
//     [NewQuotaLimiter] makes one that keeps to the server's header RateLimit, and [NewAdaptiveLimiter] one that
//     learns the rate from refusals.
//   - A [Breaker] stops the attempts while the server fails. There is none by default. [NewBreaker] makes one that
//     opens after 10 failures in a row and lets one attempt through after 5 seconds.
//
// A [Destination] is the scheme and the host of a URL. Budgets, limiters of PerDestination and breakers keep
// separate state for each destination. A failing destination does not starve another.
//
// Each of the three keeps the state of at most 4,096 destinations. It then drops the state of one destination to
// make room for another. Idle destinations go first, the least recently used of them before the others. An empty
// bucket, a limiter that is in use or lowered, and an open circuit go only if no other state is found. A
// destination that was dropped starts again as new.
//
// Everything in this package is safe for concurrent use.
package limit

import "errors"

// Reasons for which an attempt is not made. A caller finds them with errors.Is.
var (
	// ErrBudget reports that the retry budget of the destination is spent.
	ErrBudget = errors.New("limit: not retried: the retry budget of this destination is spent")
	// ErrLimited reports that the client's own rate limit left no room before the deadline.
	ErrLimited = errors.New("limit: the client-side rate limit leaves no room before the deadline")
	// ErrBreakerOpen reports that the circuit breaker of the destination is open.
	ErrBreakerOpen = errors.New("limit: the circuit breaker of this destination is open")
)
