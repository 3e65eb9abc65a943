// Package outboxtest is the contract of outbox.Queue and outbox.Backlog as a suite that any backend runs:
//
//	func TestContract(t *testing.T) {
//		outboxtest.Run(t, outboxtest.Harness{Open: open, Beside: beside, Begin: begin})
//	}
//
// Each case is a subtest whose name reads as a rule. A failure explains the rule. A slow machine fails no case:
// leases that must not end are hours long. Leases that must end are short, and the case waits for their end.
package outboxtest

import (
	"context"
	"slices"
	"testing"

	"github.com/redo-go/redo/outbox"
)

// Queue is the queue under test. If it is an outbox.Watcher too, the suite also tests that.
type Queue interface {
	outbox.Queue
	outbox.Backlog
}

// Tx is a transaction of the backend's engine, opened as a caller would. Enqueue and EnqueueBatch are the
// backend's methods in it. Commit and Rollback end it.
type Tx interface {
	Enqueue(ctx context.Context, ev outbox.Event) (string, error)
	// EnqueueBatch enqueues all events or none, and returns their ids in the same order.
	EnqueueBatch(ctx context.Context, evs []outbox.Event) ([]string, error)
	Commit(ctx context.Context) error
	Rollback(ctx context.Context) error
}

// Harness holds the functions by which Run reaches a backend. Open, Beside and Begin must be set. All functions
// are called on the test's goroutine.
type Harness struct {
	// Open returns an empty queue that shares nothing with those it returned before. It closes the queue with
	// t.Cleanup.
	Open func(t *testing.T) Queue
	// Beside returns a second handle on first's backend, as another process would have it. It returns first itself if
	// the engine allows no second handle.
	Beside func(t *testing.T, first Queue) Queue
	// Begin opens a transaction on q's backend. t.Cleanup rolls it back unless it has ended.
	Begin func(t *testing.T, q Queue) Tx
	// Spoil makes the stored event unreadable, such as by another value of its header. Nil skips the cases about it.
	Spoil func(t *testing.T, q Queue, id, destination string)
	// SingleWriter states that the engine has one write transaction at a time. The cases with two transactions are
	// skipped, and no case changes the queue while a transaction is open.
	SingleWriter bool
}

// Case is one rule of the contract.
type Case struct {
	Name string // the rule in a few words, unique and stable
	Rule string // the rule, and the caller that it protects
	run  func(*trial)
}

// Cases returns every case that Run knows, in its order.
func Cases() []Case {
	return slices.Concat(enqueueCases, batchCases, claimCases, leaseCases, orderCases, destinationCases, settleCases,
		letterCases,
		eventsCases, raceCases)
}

// Run runs each case as a subtest of t.
func Run(t *testing.T, h Harness) {
	t.Helper()
	if h.Open == nil || h.Beside == nil || h.Begin == nil {
		t.Fatal("outboxtest: a Harness needs Open, Beside and Begin")
	}
	for _, c := range Cases() {
		t.Run(c.Name, func(t *testing.T) { c.run(&trial{reporter: t, t: t, rule: c.Rule, h: h}) })
	}
}
