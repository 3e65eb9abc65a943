package outboxtest_test

import (
	"testing"

	"github.com/redo-go/redo/outbox/outboxtest"
)

// A backend is right when this test passes.
func ExampleRun() {
	var (
		open   func(t *testing.T) outboxtest.Queue
		beside func(t *testing.T, first outboxtest.Queue) outboxtest.Queue
		begin  func(t *testing.T, q outboxtest.Queue) outboxtest.Tx
	)
	_ = func(t *testing.T) { // TestContract
		outboxtest.Run(t, outboxtest.Harness{Open: open, Beside: beside, Begin: begin})
	}
}
