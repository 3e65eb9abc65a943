package pgoutbox_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/outbox"
	"github.com/redo-go/redo/outbox/pgoutbox"
)

// A full destination with many events hides no other one.
func TestJamIsPassedForAnEventBehindIt(t *testing.T) {
	d := newDesk(t)
	d.fill(t, 8000, 0)
	d.enqueue(outbox.Event{ID: "free", Destination: "other"})
	d.claimed(outbox.Claim{Max: 20, Room: map[string]int{"": 0}}, "free")
	require.Equal(t, 8000, d.count("_late", "true"))
	require.Len(t, d.all(outbox.Claim{Max: 1000}), 8000)
	require.Zero(t, d.count("_late", "true"))
}

// An event that had no room is found by a later read.
func TestJamIsLookedThroughFromItsEndAgain(t *testing.T) {
	d := newDesk(t)
	clock := stopped(d.q)
	d.fill(t, 2000, 0)
	d.enqueue(outbox.Event{ID: "free", Destination: "other"})
	for range 2 { // the second claim reads only what is new
		d.claimed(outbox.Claim{Max: 20, Room: map[string]int{"": 0, "other": 0}})
		clock.forward(pgoutbox.LookEvery / 2)
	}
	d.claimed(outbox.Claim{Max: 20, Room: map[string]int{"": 0}}, "free")
}

// A claim reads behind a jam three times if it has no event, and once if it has one. A later claim reads the rest.
func TestClaimLooksBehindAJamAFewTimes(t *testing.T) {
	d, sent := newTracedDesk(t)
	d.enqueue(outbox.Event{ID: "free", Destination: "other"})
	d.fill(t, 32_000, 0) // more than three times what it reads at a time
	full := outbox.Claim{Max: 16, Room: map[string]int{"": 0}}
	d.claimed(full, "free")
	require.Equal(t, []string{"Look"}, sent.of(d.q, "Look"))
	again := d
	again.q, again.pool = d.open(t) // another process has not looked yet
	clock := stopped(again.q)
	for _, want := range [][]string{{"Look", "Look", "Look"}, nil, nil} {
		sent.forget()
		again.claimed(full)
		require.Equal(t, want, sent.of(d.q, "Look"))
	}
	sent.forget()
	clock.forward(pgoutbox.LookEvery)
	again.claimed(full)
	require.Equal(t, []string{"Look"}, sent.of(d.q, "Look"), "the rest")
}

// A claim with an event reads behind a jam only if no other claim of the process has read there lately.
func TestClaimWithAnEventLooksBehindAJamRarely(t *testing.T) {
	d, sent := newTracedDesk(t)
	clock := stopped(d.q)
	d.enqueue(outbox.Event{ID: "first", Destination: "other"})
	d.fill(t, 2000, 0)
	full := outbox.Claim{Max: 16, Room: map[string]int{"": 0}}
	for _, want := range [][]string{{"Look"}, nil, nil} {
		sent.forget()
		d.settle(outbox.Released, d.claimed(full, "first")...)
		require.Equal(t, want, sent.of(d.q, "Look"))
	}
	sent.forget()
	clock.forward(pgoutbox.LookEvery)
	d.claimed(full, "first")
	require.Equal(t, []string{"Look"}, sent.of(d.q, "Look"))
}

// A claim passes ten thousand events at most. The next one goes on behind them at once, also if it has an event.
func TestLongJamIsPassedByTheNextClaim(t *testing.T) {
	d := newDesk(t)
	stopped(d.q)
	d.enqueue(outbox.Event{ID: "first", Destination: "other"})
	first := d.claim("first")
	d.fill(t, 12_000, 0)
	d.enqueue(outbox.Event{ID: "free", Destination: "other"})
	full := outbox.Claim{Max: 16, Room: map[string]int{"": 0}}
	d.claimed(full)
	require.Equal(t, 10_000, d.count("_late", "true"))
	d.settle(outbox.Released, first...)
	d.claimed(full, "first", "free")
}

// A clock stands still until it is moved forward.
type clock struct{ at time.Time }

// stopped gives the queue a clock.
func stopped(q *pgoutbox.Queue) *clock {
	c := &clock{time.Now()}
	q.SetClock(func() time.Time { return c.at })
	return c
}

func (c *clock) forward(d time.Duration) { c.at = c.at.Add(d) }
