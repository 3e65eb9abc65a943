// Package hangtest bounds calls of tests that never end if a rule is broken.
package hangtest

import (
	"runtime/debug"
	"testing"
	"time"
)

// patience bounds each call. It is spent only when a rule is broken.
const patience = time.Minute

// Within returns the error of f. If f does not end, the test's process ends and shows its goroutines. Such an f
// may hold locks, follow damaged pages in a circle, or wait for a group that is never committed.
func Within(t testing.TB, f func() error) error {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- f() }()
	return Received(t, done)
}

// Received is Within for a call that runs already.
func Received(t testing.TB, done <-chan error) error {
	t.Helper()
	select {
	case err := <-done:
		return err
	case <-time.After(patience):
		debug.SetTraceback("all")
		panic(t.Name() + ": a call does not end")
	}
}
