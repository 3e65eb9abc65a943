// Package examples is above programs to copy, one directory each. README.md lists them. Run one from anywhere in the
// checkout with "go run ./examples/client". Each package comment states what the program shows and what it prints. Each
// program ends by itself.
//
// It is a module of its own and is never released, so that the imports of an example bind no user.
package examples
