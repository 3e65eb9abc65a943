package boltoutbox

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/outbox"
	"github.com/redo-go/redo/store/boltstore"
)

const fullDestination, backlog = "https://full.example/hooks", 10_000

// reads opens a queue with a backlog of one destination, makes the change, and adds an event for another destination.
// It returns the number of entries that a claim of 10 reads, and the ids of the events that it takes.
func reads(t *testing.T, key string, c outbox.Claim, change func(t *testing.T, q *Queue)) (int, []string) {
	t.Helper()
	st, err := boltstore.Open(filepath.Join(t.TempDir(), "outbox.redo"))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, st.Close()) })
	q, err := New(t.Context(), st)
	require.NoError(t, err)
	events := make([]outbox.Event, backlog)
	for i := range events {
		events[i] = outbox.Event{ID: fmt.Sprint(i), Destination: fullDestination, OrderingKey: key}
	}
	require.NoError(t, q.Append(t.Context(), events...))
	change(t, q)
	require.NoError(t, q.Append(t.Context(), outbox.Event{ID: "healthy", Destination: "https://healthy.example"}))
	c.Max, c.Lease = 10, time.Hour
	n, ids := 0, []string{}
	require.NoError(t, q.view(t.Context(), func(f *file) error {
		for _, p := range f.picks(c) {
			ids = append(ids, p.state.ID)
		}
		n = f.reads
		return nil
	}))
	return n, ids
}

func TestClaimPassesOverABacklogWithoutReadingIt(t *testing.T) {
	nothing := func(*testing.T, *Queue) {}
	without := func(room int) outbox.Claim { return outbox.Claim{Room: map[string]int{fullDestination: room}} }
	bury := func(t *testing.T, q *Queue) { // the first event of each line
		ds, err := q.Claim(t.Context(), outbox.Claim{Max: 1, Lease: time.Hour})
		require.NoError(t, err)
		_, err = q.Settle(t.Context(),
			outbox.Settlement{Lease: ds[0].Lease, Outcome: outbox.Outcome{Result: outbox.Dead}})
		require.NoError(t, err)
	}
	for _, c := range []struct {
		name   string
		key    string
		claim  outbox.Claim
		change func(t *testing.T, q *Queue)
		reads  int
	}{
		{"of a destination without room", "", without(0), nothing, 8},
		{"of a line of a destination without room", "line", without(0), nothing, 8},
		{"of a disabled destination", "", outbox.Claim{}, func(t *testing.T, q *Queue) {
			require.NoError(t, q.Disable(t.Context(), fullDestination, outbox.Failure{}))
		}, 7},
		{"of a held line", "line", outbox.Claim{HoldKeys: true}, bury, 6},
		{"of a destination with room for one", "", without(1), nothing, 12},
	} {
		t.Run(c.name, func(t *testing.T) {
			n, ids := reads(t, c.key, c.claim, c.change)
			require.Contains(t, ids, "healthy")
			require.Equal(t, c.reads, n, "entries read")
		})
	}
	t.Run("but reads the event that it takes", func(t *testing.T) {
		n, ids := reads(t, "", outbox.Claim{}, nothing)
		require.Greater(t, n, 2*10, "a state and a body of each")
		require.Equal(t, []string{"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"}, ids)
	})
	t.Run("and each place of a line once", func(t *testing.T) {
		n, ids := reads(t, "line", outbox.Claim{}, nothing)
		require.Contains(t, ids, "8")
		require.LessOrEqual(t, n, 40, "entries read")
	})
}

// A claim for one event does not look at every destination that has one.
func TestReadsOfAClaimDoNotGrowWithTheDestinations(t *testing.T) {
	reads := func(destinations int) (n int) {
		st, err := boltstore.Open(filepath.Join(t.TempDir(), "outbox.redo"))
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, st.Close()) })
		q, err := New(t.Context(), st)
		require.NoError(t, err)
		events := make([]outbox.Event, destinations)
		for i := range events {
			events[i] = outbox.Event{ID: fmt.Sprint(i), Destination: fmt.Sprint(i)}
		}
		require.NoError(t, q.Append(t.Context(), events...))
		require.NoError(t, q.view(t.Context(), func(f *file) error {
			require.Len(t, f.picks(outbox.Claim{Max: 3}), 3)
			n = f.reads
			return nil
		}))
		return n
	}
	require.Equal(t, reads(3), reads(400), "entries read")
}

func TestHeldLinesCostNothing(t *testing.T) {
	st, err := boltstore.Open(filepath.Join(t.TempDir(), "outbox.redo"))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, st.Close()) })
	q, err := New(t.Context(), st)
	require.NoError(t, err)
	const lines = 500
	for i := range lines {
		key := fmt.Sprint("line", i)
		require.NoError(t, q.Append(t.Context(),
			outbox.Event{ID: key + "-1", OrderingKey: key}, outbox.Event{ID: key + "-2", OrderingKey: key}))
	}
	hold := outbox.Claim{Max: outbox.MaxClaim, Lease: time.Hour, HoldKeys: true}
	ds, err := q.Claim(t.Context(), outbox.Claim{Max: lines, Lease: time.Hour})
	require.NoError(t, err)
	var ended []outbox.Settlement
	for _, d := range ds {
		require.Contains(t, d.Event.ID, "-1")
		ended = append(ended, outbox.Settlement{Lease: d.Lease, Outcome: outbox.Outcome{Result: outbox.Dead}})
	}
	_, err = q.Settle(t.Context(), ended...)
	require.NoError(t, err)
	looked := func(c outbox.Claim) (n, picked int) {
		require.NoError(t, q.view(t.Context(), func(f *file) error {
			picked = len(f.picks(c))
			n = f.reads
			return nil
		}))
		return n, picked
	}
	n, picked := looked(hold)
	require.Zero(t, picked)
	require.Equal(t, 1, n, "entries read beside %d held lines", lines)
	_, picked = looked(outbox.Claim{Max: outbox.MaxClaim, Lease: time.Hour})
	require.Equal(t, lines, picked, "a claim that holds no lines takes their events")
}

func TestEventIsFoundByItsIDWithoutAList(t *testing.T) {
	st, err := boltstore.Open(filepath.Join(t.TempDir(), "outbox.redo"))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, st.Close()) })
	q, err := New(t.Context(), st)
	require.NoError(t, err)
	events, err := outbox.FanOut(outbox.Event{ID: "shared"}, "d3", "d1", "d2")
	require.NoError(t, err)
	for i := range 1000 {
		events = append(events, outbox.Event{ID: fmt.Sprint(i), Destination: "d1"})
	}
	events = append(events, outbox.Event{ID: "shared-too", Destination: "d1"})
	require.NoError(t, q.Append(t.Context(), events...))
	for _, c := range []struct {
		sel   outbox.Selection
		found []string
		reads int
	}{
		{outbox.Selection{ID: "shared", Destination: "d1"}, []string{"d1"}, 5},
		{outbox.Selection{ID: "shared"}, []string{"d3", "d1", "d2"}, 13},
		{outbox.Selection{ID: "shared", Destination: "d"}, nil, 1},
		{outbox.Selection{ID: "none"}, nil, 1},
	} {
		p := page{state: outbox.StateWaiting}
		require.NoError(t, q.view(t.Context(), func(f *file) error {
			p.find(f, c.sel)
			require.LessOrEqual(t, f.reads, c.reads, "%+v", c.sel)
			return f.err
		}))
		var found []string
		for e, err := range q.Events(t.Context(), c.sel) {
			require.NoError(t, err)
			require.Equal(t, c.sel.ID, e.Event.ID)
			found = append(found, e.Event.Destination)
		}
		require.Equal(t, c.found, found)
	}
}
