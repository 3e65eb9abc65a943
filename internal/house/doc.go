// Package house holds the rules of the house as tests: who may import whom, which dependencies there are, how
// long a file may be, what has to be documented, and that what the documents name exists. The rules themselves
// are told in CONTRIBUTING.md.
//
// Each rule is a function from a file tree to its violations. It is run on this repository, where it must find
// nothing, and on small trees in memory that break it, where it must find exactly what they break.
package house
