package outbox_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/outbox"
	"github.com/redo-go/redo/store"
)

// bury makes dead letters of n events for each destination.
func (g *rig) bury(n int, destinations ...string) {
	g.Helper()
	for _, d := range destinations {
		g.fill(d, n, unordered)
	}
	for {
		ds, err := g.queue.Claim(context.Background(), outbox.Claim{Max: 1000, Lease: time.Hour})
		require.NoError(g, err)
		if len(ds) == 0 {
			return
		}
		for _, d := range ds {
			_, err := g.queue.Settle(context.Background(),
				outbox.Settlement{Lease: d.Lease, Outcome: outbox.Outcome{Result: outbox.Dead}})
			require.NoError(g, err)
		}
	}
}

func TestRedriveAll(t *testing.T) {
	ctx := context.Background()
	t.Run("a dry run counts and changes nothing", func(t *testing.T) {
		inBubble(t, func(g *rig) {
			g.bury(20, "a", "b")
			done, err := outbox.RedriveAll(ctx, g.queue, outbox.Selection{Destination: "a"}, outbox.DryRun())
			require.NoError(t, err)
			require.Equal(t, outbox.Redriven{Matched: 20}, done)
			g.stats(0, 40)
		})
	})
	t.Run("the events of the selection are redriven, and no others", func(t *testing.T) {
		inBubble(t, func(g *rig) {
			g.bury(20, "a", "b")
			g.enqueue(outbox.Event{ID: "waits", Destination: "a"})
			done, err := outbox.RedriveAll(ctx, g.queue, outbox.Selection{Destination: "a"})
			require.NoError(t, err)
			require.Equal(t, outbox.Redriven{Matched: 20, Redriven: 20}, done)
			g.stats(21, 20)
		})
	})
	t.Run("the rate is kept", func(t *testing.T) {
		inBubble(t, func(g *rig) {
			g.bury(101, "a")
			start := time.Now()
			done, err := outbox.RedriveAll(ctx, g.queue, outbox.Selection{}, outbox.PerSecond(10))
			require.NoError(t, err)
			require.Equal(t, 101, done.Redriven)
			require.Equal(t, 10*time.Second, time.Since(start))
		})
	})
	t.Run("an ended context stops it, and shows how far it came", func(t *testing.T) {
		inBubble(t, func(g *rig) {
			g.bury(100, "a")
			ctx, cancel := context.WithTimeout(ctx, 4750*time.Millisecond)
			defer cancel()
			done, err := outbox.RedriveAll(ctx, g.queue, outbox.Selection{}, outbox.PerSecond(2))
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.Equal(t, 10, done.Redriven)
			g.stats(10, 90)
		})
	})
	t.Run("letters that vanish and events that can't be read stop nothing", func(t *testing.T) {
		inBubble(t, func(g *rig) {
			g.bury(3, "a")
			b := edited{g.queue, func(yield func(outbox.Entry, error) bool) {
				for _, bad := range []outbox.Entry{
					{Event: outbox.Event{ID: "bad"}, State: outbox.StateDead},
					{Event: outbox.Event{ID: "its state can't be read"}},
					{State: outbox.StateDead}, // nor its id
				} {
					if !yield(bad, errors.New("unreadable")) {
						return
					}
				}
				yield(outbox.Entry{Event: outbox.Event{ID: "gone"}, State: outbox.StateDead}, nil)
			}}
			done, err := outbox.RedriveAll(ctx, b, outbox.Selection{})
			require.NoError(t, err)
			require.Equal(t, outbox.Redriven{Matched: 4, Redriven: 3, Vanished: 1, Unreadable: 3}, done)
		})
	})
	t.Run("a letter that dies again meanwhile is redriven once", func(t *testing.T) {
		inBubble(t, func(g *rig) {
			g.bury(3, "a")
			b := edited{g.queue, func(yield func(outbox.Entry, error) bool) { // a list of pages has it again
				for e, err := range g.queue.Events(ctx, outbox.Selection{State: outbox.StateDead}) {
					if !yield(e, err) {
						return
					}
				}
				g.bury(0)
			}}
			done, err := outbox.RedriveAll(ctx, b, outbox.Selection{})
			require.NoError(t, err)
			require.Equal(t, outbox.Redriven{Matched: 3, Redriven: 3}, done)
		})
	})
	t.Run("a list that ends early is an error", func(t *testing.T) {
		inBubble(t, func(g *rig) {
			b := edited{g.queue, func(yield func(outbox.Entry, error) bool) {
				yield(outbox.Entry{}, store.ErrUnavailable)
			}}
			_, err := outbox.RedriveAll(ctx, b, outbox.Selection{})
			require.ErrorIs(t, err, store.ErrUnavailable)
		})
	})
	t.Run("events that wait can't be redriven", func(t *testing.T) {
		inBubble(t, func(g *rig) {
			_, err := outbox.RedriveAll(ctx, g.queue, outbox.Selection{State: outbox.StateWaiting})
			require.ErrorIs(t, err, store.ErrInvalid)
			_, err = outbox.RedriveAll(ctx, g.queue, outbox.Selection{}, nil)
			require.Error(t, err)
		})
	})
}

func TestRedriveAllRefusesARateThatItCantKeep(t *testing.T) {
	ctx := context.Background()
	for value, n := range map[string]float64{
		"NaN": math.NaN(), "+Inf": math.Inf(1), "-Inf": math.Inf(-1), "-1": -1, "0": 0, "1e-10": 1e-10,
		"5e-324": math.SmallestNonzeroFloat64, "1.0842021724855044e-10": 1e9 / (1 << 63),
	} {
		t.Run(value, func(t *testing.T) {
			inBubble(t, func(g *rig) {
				g.bury(2, "a")
				for _, opts := range [][]outbox.RedriveOption{nil, {outbox.DryRun()}} {
					done, err := outbox.RedriveAll(ctx, g.queue, outbox.Selection{},
						append(opts, outbox.PerSecond(n))...)
					require.ErrorIs(g, err, store.ErrInvalid)
					require.ErrorContains(g, err, "option PerSecond: "+value+", it must be positive and finite")
					require.Zero(g, done)
				}
				g.stats(0, 2)
			})
		})
	}
}

func TestRedriveAllKeepsAnyOtherRate(t *testing.T) {
	for _, c := range []struct {
		n        float64
		redriven int // of three, within 100 years
		after    time.Duration
	}{
		{1.1e-10, 1, 100 * 365 * 24 * time.Hour}, // the interval is 288 years, and twice that is no time.Duration
		{1.0 / (1 << 30), 3, 1 << 31 * time.Second},
		{0.5, 3, 4 * time.Second},
		{math.MaxFloat64, 3, 0},
	} {
		t.Run(fmt.Sprint(c.n), func(t *testing.T) {
			inBubble(t, func(g *rig) {
				g.bury(3, "a")
				start := time.Now()
				ctx, cancel := context.WithTimeout(context.Background(), 100*365*24*time.Hour)
				defer cancel()
				done, err := outbox.RedriveAll(ctx, g.queue, outbox.Selection{}, outbox.PerSecond(c.n))
				require.Equal(g, c.redriven, done.Redriven)
				require.Equal(g, c.after, time.Since(start))
				if c.redriven < 3 {
					require.ErrorIs(g, err, context.DeadlineExceeded)
				} else {
					require.NoError(g, err)
				}
			})
		})
	}
}

func TestRedriveAllEndsWithTheQueuesError(t *testing.T) {
	inBubble(t, func(g *rig) {
		g.bury(2, "d")
		done, err := outbox.RedriveAll(context.Background(), unwritable{g.queue}, outbox.Selection{})
		require.ErrorIs(g, err, store.ErrUnavailable)
		require.Equal(g, outbox.Redriven{Matched: 1}, done)
		require.Len(g, g.letters(), 2)
	})
}

// An unwritable backlog redrives nothing.
type unwritable struct{ outbox.Backlog }

func (unwritable) Redrive(context.Context, string, string) error { return store.ErrUnavailable }

// An edited backlog lists other entries before its own.
type edited struct {
	outbox.Backlog
	first iter.Seq2[outbox.Entry, error]
}

func (e edited) Events(ctx context.Context, s outbox.Selection) iter.Seq2[outbox.Entry, error] {
	return func(yield func(outbox.Entry, error) bool) {
		for _, list := range []iter.Seq2[outbox.Entry, error]{e.first, e.Backlog.Events(ctx, s)} {
			for entry, err := range list {
				if !yield(entry, err) {
					return
				}
			}
		}
	}
}

func TestFanOut(t *testing.T) {
	evs, err := outbox.FanOut(outbox.Event{Type: "x", Payload: []byte("p")}, "a", "b", "c")
	require.NoError(t, err)
	require.Len(t, evs, 3)
	for i, ev := range evs {
		require.Equal(t, evs[0].ID, ev.ID)
		require.Equal(t, fmt.Sprintf("%c", 'a'+i), ev.Destination)
		require.Equal(t, "p", string(ev.Payload))
	}
	require.Len(t, evs[0].ID, 36)
	for rule, destinations := range map[string][]string{
		"none": nil, "twice": {"a", "b", "a"}, "not UTF-8": {"a", "\xff"},
	} {
		_, err := outbox.FanOut(outbox.Event{ID: "k"}, destinations...)
		require.ErrorIs(t, err, store.ErrInvalid, rule)
	}
	_, err = outbox.FanOut(outbox.Event{ID: "k"}, "a", "b", "a")
	require.ErrorContains(t, err, "destination 3 twice", "the first is number 1")
}
