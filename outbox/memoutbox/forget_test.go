package memoutbox

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/outbox"
)

// A queue that has delivered its events knows no destination, and Claim passes over none.
func TestDestinationWithoutEventsIsForgotten(t *testing.T) {
	q := New()
	const n = 5
	var events []outbox.Event
	for i := range n {
		destination := fmt.Sprint("https://shop.example/", i)
		events = append(events,
			outbox.Event{ID: "a", Destination: destination, OrderingKey: "k"},
			outbox.Event{ID: "b", Destination: destination, OrderingKey: "k"},
			outbox.Event{ID: "c", Destination: destination})
	}
	require.NoError(t, q.Append(t.Context(), events...))
	require.Len(t, q.destinations, n)
	dead := 0
	for left := len(events); left > 0; {
		ds, err := q.Claim(t.Context(), outbox.Claim{Max: 2, Lease: time.Minute})
		require.NoError(t, err)
		require.NotEmpty(t, ds)
		for _, d := range ds {
			o := outbox.Outcome{Result: outbox.Sent}
			if d.Event.Destination == events[0].Destination && d.Event.ID == "c" {
				o = outbox.Outcome{Result: outbox.Dead}
				dead++
			}
			lost, err := q.Settle(t.Context(), outbox.Settlement{Lease: d.Lease, Outcome: o})
			require.NoError(t, err)
			require.Empty(t, lost)
		}
		left -= len(ds)
	}
	require.Equal(t, 1, dead)
	require.Len(t, q.destinations, 1, "one has a dead letter")
	require.NoError(t, q.Drop(t.Context(), "c", events[0].Destination))
	require.Empty(t, q.destinations)
	require.Empty(t, q.lines)
}
