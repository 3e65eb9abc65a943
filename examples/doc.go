// Package examples is above programs to copy, one directory each. README.md lists them. Run one from anywhere in
// the checkout with "go run ./examples/client". Each package comment describes the program and prints its output.
// Each program ends without a signal.
//
// The module is never released, so the imports of an example bind no user.
package examples
