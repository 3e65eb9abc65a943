// Package house tests the rules of CONTRIBUTING.md: the imports, the dependencies, the length of files, the comments of
// exported names, and the names and links in the documents.
//
// Each rule is a function from a file tree to its violations. It runs on this repository, where it must find
// nothing. It also runs on small trees in memory that break it, where it must find exactly those violations.
package house
