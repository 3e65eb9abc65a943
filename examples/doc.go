// Package examples stands over runnable programs, one directory each. Run one from anywhere in the checkout
// with "go run ./examples/quickstart"; each says in its package comment what it shows, needs nothing but Go
// unless it says so, and ends by itself with status 0.
//
// It is a module of its own and is never released, so that what an example imports binds nobody.
package examples
