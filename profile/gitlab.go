package profile

import "github.com/redo-go/redo"

// GitLab describes the GitLab REST API, which documents no idempotency keys: redo repeats only safe requests and
// requests that were never written. A rate limit is a 429 with RateLimit headers, mostly with Retry-After.
//
// Source: https://docs.gitlab.com/security/rate_limits/
var GitLab = redo.Profile{
	Name:   "gitlab",
	NoKeys: true,
}
