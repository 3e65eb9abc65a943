package profile

import "github.com/redo-go/redo"

// GitHub describes the GitHub REST API, which has no idempotency keys: redo repeats only safe requests and requests
// that were never written. A primary rate limit is a 403 or 429 with X-RateLimit-Remaining: 0. A secondary one is a
// 403 or 429, mostly with Retry-After. Package taxonomy recognizes both by these headers, so the profile needs no
// classifier. A 403 with neither header is a missing permission, or a secondary limit that only its message names.
//
// Source: https://docs.github.com/en/rest/using-the-rest-api/rate-limits-for-the-rest-api
var GitHub = redo.Profile{
	Name:          "github",
	NoKeys:        true,
	StoredHeaders: []string{"X-Github-Api-Version"},
}
