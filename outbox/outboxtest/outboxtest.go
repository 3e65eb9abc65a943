// Package outboxtest is the contract of outbox.Queue and outbox.Backlog as a suite that any backend runs:
//
//	func TestContract(t *testing.T) {
//		outboxtest.Run(t, outboxtest.Harness{Open: open, Beside: beside, Begin: begin})
//	}
//
// Each case is a subtest whose name reads as a rule; a failure explains the rule. A slow machine fails no case: leases that
// must not end are hours long, and those that must are short and waited for.
package outboxtest

import (
	"context"
	"slices"
	"testing"

	"github.com/redo-go/redo/outbox"
)

// A Queue is what the suite tests. One that is an outbox.Watcher too is tested as such.
type Queue interface {
	outbox.Queue
	outbox.Backlog
}

// A Tx is a transaction of the backend's engine, opened as a caller would. Enqueue is the backend's in it; Commit and
// Rollback end it.
type Tx interface {
	Enqueue(ctx context.Context, ev outbox.Event) (string, error)
	Commit(ctx context.Context) error
	Rollback(ctx context.Context) error
}

// A Harness tells Run how to reach a backend. None of its functions may be nil, and all are called on the test's goroutine.
type Harness struct {
	// Open returns an empty queue that shares nothing with those it returned before, and closes it with t.Cleanup.
	Open func(t *testing.T) Queue
	// Beside returns a second handle on first's backend, as another process would have it; first itself where the engine
	// allows no other.
	Beside func(t *testing.T, first Queue) Queue
	// Begin opens a transaction on q's backend. It is rolled back with t.Cleanup unless it has been ended.
	Begin func(t *testing.T, q Queue) Tx
	// SingleWriter says that the engine has one write transaction at a time: the cases with two are skipped, and no case
	// changes the queue while a transaction is open.
	SingleWriter bool
}

// A Case is one rule of the contract.
type Case struct {
	Name string // the rule in a few words, unique and stable
	Rule string // what the rule says and whom it protects
	run  func(*trial)
}

// Cases returns every case that Run knows, in its order.
func Cases() []Case {
	return slices.Concat(enqueueCases, claimCases, leaseCases, orderCases, letterCases, raceCases)
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
