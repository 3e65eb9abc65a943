// Package house holds the rules of the house as tests: the imports, the dependencies, how long
// a file may be, which names need a comment, and that the names in the documents exist. CONTRIBUTING.md states the
// rules themselves.
//
// Each rule is a function from a file tree to its violations. It runs on this repository, where it must find
// nothing. It also runs on small trees in memory that break it, where it must find exactly those violations.
package house
