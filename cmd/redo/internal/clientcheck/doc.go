// Package clientcheck judges HTTP clients of any language. For each case, [Run] starts a scripted server and runs a
// command that makes one call. It then judges the requests, the effects and the exit status.
//
// The command's contract is in its environment, see [Command]. The report has the form of package conformance, so that
// the same writers print it.
package clientcheck
