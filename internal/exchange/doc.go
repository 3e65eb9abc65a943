// Package exchange sends one HTTP request and receives its response, for one attempt of a client.
//
// An [Exchange] has a time limit, counts the connections that may have carried the request, and follows the
// redirects that are safe to follow. It reads the part of the response that the client needs to judge the attempt,
// and hands over the rest of the body to the caller. A [Body] gives each exchange of a call a new reader.
//
// The package knows nothing of operations, keys in a store, or retries.
package exchange
