package oneline

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/outbox"
	"github.com/redo-go/redo/verify/internal/random"
)

// A flawedQueue breaks one rule of its contract. A nil function breaks none.
type flawedQueue struct {
	random.Queue
	enqueue func(*outbox.Event) bool // false: the event is lost
	claim   func(*outbox.Claim)
	settle  func(*outbox.Settlement)
	lost    bool // a renewal is lost
	stuck   bool // Enable does nothing
	drops   bool // a redrive drops
}

func (f flawedQueue) Append(ctx context.Context, events ...outbox.Event) error {
	if f.enqueue != nil && !f.enqueue(&events[0]) {
		return nil
	}
	return f.Queue.Append(ctx, events...)
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

func (f flawedQueue) Settle(ctx context.Context, ended ...outbox.Settlement) ([]outbox.Lease, error) {
	if f.settle != nil {
		for i := range ended {
			f.settle(&ended[i])
		}
	}
	return f.Queue.Settle(ctx, ended...)
}

func (f flawedQueue) Enable(ctx context.Context, destination string) error {
	if f.stuck {
		return nil
	}
	return f.Queue.Enable(ctx, destination)
}

func (f flawedQueue) Redrive(ctx context.Context, id, destination string) error {
	if f.drops {
		return f.Queue.Drop(ctx, id, destination)
	}
	return f.Queue.Redrive(ctx, id, destination)
}

// The relay can keep the rules only if the queue keeps its own. So each of these is found.
func TestEachPlantedDefectIsFound(t *testing.T) {
	for name, f := range map[string]flawedQueue{
		"an event is lost": {enqueue: func(*outbox.Event) bool { return false }},
		"an order is not kept": {enqueue: func(ev *outbox.Event) bool {
			ev.OrderingKey = ""
			return true
		}},
		"a lease is shorter":                 {claim: func(c *outbox.Claim) { c.Lease /= 3 }},
		"a line is not held":                 {claim: func(c *outbox.Claim) { c.HoldKeys = false }},
		"a renewal is acknowledged and lost": {lost: true},
		"an event that failed is taken for sent": {settle: func(s *outbox.Settlement) {
			if s.Outcome.Result == outbox.Waiting {
				s.Outcome = outbox.Outcome{Result: outbox.Sent}
			}
		}},
		"a dead letter is delivered again": {settle: func(s *outbox.Settlement) {
			if s.Outcome.Result == outbox.Dead {
				s.Outcome.Result, s.Outcome.Wait = outbox.Waiting, time.Second
			}
		}},
		"an enabled destination stays disabled": {stuck: true},
		"a redriven event is lost":              {drops: true},
	} {
		t.Run(name, func(t *testing.T) {
			const tries = 1000
			l := lives(t, 0, tries, func(q random.Queue) random.Queue {
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
	l := lives(t, 0, 100, func(q random.Queue) random.Queue {
		return flawedQueue{Queue: q, claim: func(c *outbox.Claim) { c.Lease += time.Second }}
	})
	if l != nil {
		require.Fail(t, l.Violation(), "%v", l)
	}
}
