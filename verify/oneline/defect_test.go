package oneline

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/inbox"
	"github.com/redo-go/redo/outbox"
	"github.com/redo-go/redo/verify/internal/random"
)

// A flawedQueue breaks one rule of its contract. A nil function breaks none.
type flawedQueue struct {
	random.FlawedQueue
	claim func(*outbox.Claim)
	lost  bool // a renewal is lost
	stuck bool // Enable does nothing
}

func (f flawedQueue) Claim(ctx context.Context, c outbox.Claim) ([]outbox.Delivery, error) {
	if f.claim != nil {
		f.claim(&c)
	}
	return f.Queue.Claim(ctx, c)
}

func (f flawedQueue) Extend(ctx context.Context, d time.Duration, leases ...outbox.Lease) ([]outbox.Lease, error) {
	if f.lost {
		return nil, nil
	}
	return f.Queue.Extend(ctx, d, leases...)
}

func (f flawedQueue) Enable(ctx context.Context, destination string) error {
	if f.stuck {
		return nil
	}
	return f.Queue.Enable(ctx, destination)
}

// The relay can keep the rules only if the queue keeps its own. So each of these is found.
func TestEachPlantedDefectIsFound(t *testing.T) {
	for name, f := range map[string]flawedQueue{
		"an event is lost": {FlawedQueue: random.FlawedQueue{Enqueued: func(*outbox.Event) bool { return false }}},
		"an order is not kept": {FlawedQueue: random.FlawedQueue{Enqueued: func(ev *outbox.Event) bool {
			ev.OrderingKey = ""
			return true
		}}},
		"a lease is shorter":                 {claim: func(c *outbox.Claim) { c.Lease /= 3 }},
		"a line is not held":                 {claim: func(c *outbox.Claim) { c.HoldKeys = false }},
		"a renewal is acknowledged and lost": {lost: true},
		"an event that failed is taken for sent": {FlawedQueue: random.FlawedQueue{Settled: func(s *outbox.Settlement) {
			if s.Outcome.Result == outbox.Waiting {
				s.Outcome = outbox.Outcome{Result: outbox.Sent}
			}
		}}},
		"a dead letter is delivered again": {FlawedQueue: random.FlawedQueue{Settled: func(s *outbox.Settlement) {
			if s.Outcome.Result == outbox.Dead {
				s.Outcome.Result, s.Outcome.Wait = outbox.Waiting, time.Second
			}
		}}},
		"an enabled destination stays disabled": {stuck: true},
		"a redriven event is lost":              {FlawedQueue: random.FlawedQueue{Drops: true}},
	} {
		t.Run(name, func(t *testing.T) {
			const tries = 1000
			l := lives(t, 0, tries, func(q inbox.Queue) inbox.Queue {
				f.Queue = q
				return f
			})
			require.NotNil(t, l, "not found in %d lives", tries)
			t.Logf("found by seed %d: %s", l.Seed, l.Violation())
		})
	}
}

// The twin: a lease that ends later costs time and breaks no rule.
func TestALongerLeaseBreaksNoRule(t *testing.T) {
	l := lives(t, 0, 100, func(q inbox.Queue) inbox.Queue {
		return flawedQueue{FlawedQueue: random.FlawedQueue{Queue: q}, claim: func(c *outbox.Claim) { c.Lease += time.Second }}
	})
	if l != nil {
		require.Fail(t, l.Violation(), "%v", l)
	}
}
