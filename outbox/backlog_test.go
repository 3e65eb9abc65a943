package outbox

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestASelectionNeedsEachOfItsFields(t *testing.T) {
	at := time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)
	e := Entry{Event: Event{ID: "e1", Destination: "shop", Type: "paid"}, State: StateDead, EnqueuedAt: at}
	all := Selection{
		State: StateDead, ID: "e1", Destination: "shop", Type: "paid", Since: at, Until: at.Add(time.Nanosecond),
	}
	require.True(t, all.Matches(e))
	require.True(t, Selection{}.Matches(e))
	for field, change := range map[string]func(*Selection){
		"State":       func(s *Selection) { s.State = StateWaiting },
		"ID":          func(s *Selection) { s.ID = "e2" },
		"Destination": func(s *Selection) { s.Destination = "bank" },
		"Type":        func(s *Selection) { s.Type = "refunded" },
		"Since":       func(s *Selection) { s.Since = at.Add(time.Nanosecond) },
		"Until":       func(s *Selection) { s.Until = at },
	} {
		other := all
		change(&other)
		require.False(t, other.Matches(e), field)
	}
}

func TestTheFailureOfAnEntryIsItsLast(t *testing.T) {
	require.Zero(t, Entry{}.Failure())
	past := []PastFailure{{Failure: Failure{Reason: "first"}}, {Failure: Failure{Reason: "last"}}}
	require.Equal(t, Failure{Reason: "last"}, Entry{History: past}.Failure())
}
