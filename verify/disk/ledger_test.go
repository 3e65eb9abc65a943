package disk

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/store"
)

func TestLedger(t *testing.T) {
	pending := Fact{State: store.StatePending, Meta: "m", Fence: 1}
	done := Fact{State: store.StateComplete, Meta: "m", Result: "r", Fence: 1}
	other := Fact{State: store.StatePending, Meta: "m", Fence: 2}
	half := Fact{State: store.StateComplete, Meta: "m", Fence: 1}
	begin := func(key string, f Fact, lazy bool) Event {
		return Event{Stage: Begun, Op: "op", Key: key, Found: f, Lazy: lazy}
	}
	ack := func(key string, f Fact) Event { return Event{Stage: Done, Op: "op", Key: key, Found: f} }
	reserved := []Event{begin("k", Fact{State: store.StatePending, Meta: "m"}, false), ack("k", pending)}
	lazily := append(reserved[:2:2], begin("k", done, true), ack("k", done))
	overtaken := append(lazily[:4:4], begin("l", other, false), ack("l", other))
	commit := begin("l", other, false)
	commit.Op = transactional
	for name, c := range map[string]struct {
		events []Event
		seen   map[string]Fact
		lost   bool
	}{
		"an acknowledged record is there":     {reserved, map[string]Fact{"k": pending}, false},
		"an acknowledged record is missing":   {reserved, nil, true},
		"it has another fence":                {reserved, map[string]Fact{"k": other}, true},
		"an unacknowledged record is there":   {reserved[:1], map[string]Fact{"k": pending}, false},
		"an unacknowledged record is missing": {reserved[:1], nil, false},
		"a record that no call made":          {nil, map[string]Fact{"k": pending}, true},
		"half a change":                       {reserved, map[string]Fact{"k": half}, true},
		"a lazy outcome is there":             {lazily, map[string]Fact{"k": done}, false},
		"a lazy outcome is lost":              {lazily, map[string]Fact{"k": pending}, false},
		"a lazy outcome is before another":    {overtaken, map[string]Fact{"k": done, "l": other}, false},
		"a lazy outcome is overtaken":         {overtaken, map[string]Fact{"k": pending, "l": other}, true},
		"but not by a transaction": {
			append(lazily[:4:4], commit, ack("l", other)), map[string]Fact{"k": pending, "l": other}, false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			var l Ledger
			for _, e := range c.events {
				require.NoError(t, l.Add(e))
			}
			if err := l.Judge(c.seen); c.lost {
				require.ErrorIs(t, err, ErrLoss)
			} else {
				require.NoError(t, err)
			}
		})
	}
	t.Run("an acknowledgement after a failed sync", func(t *testing.T) {
		var l Ledger
		require.NoError(t, l.Add(reserved[0]))
		l.SyncFailed()
		require.NoError(t, l.Add(reserved[1]), "the twin: its call began before")
		require.NoError(t, l.Add(begin("l", other, false)))
		require.ErrorIs(t, l.Add(ack("l", other)), ErrLoss)
	})
	t.Run("a record that a process was shown is acknowledged", func(t *testing.T) {
		var l Ledger
		l.Reopened()
		require.NoError(t, l.Add(reserved[0]))
		require.NoError(t, l.Add(Event{Stage: Done, Op: "find", Key: "k", Found: pending}))
		require.ErrorIs(t, l.Judge(nil), ErrLoss)
		require.ErrorIs(t, l.Add(Event{Stage: Done, Op: "find", Key: "k", Found: other}), ErrLoss)
	})
	find := func(key string, f Fact) Event { return Event{Stage: Done, Op: "find", Key: key, Found: f} }
	all := Event{Stage: Done, Op: "found all"}
	later := []Event{begin("l", other, false), ack("l", other)}
	for name, c := range map[string]struct {
		events, shown []Event
		seen          map[string]Fact
		lost          bool
	}{
		"a lazy outcome that was lost with its process is not overtaken": {
			lazily, []Event{find("k", pending), all}, map[string]Fact{"k": pending, "l": other}, false,
		},
		"one that was not lost may not be lost later": {
			lazily, []Event{find("k", done), all}, map[string]Fact{"k": pending, "l": other}, true,
		},
		"what is gone does not come back": {
			lazily, []Event{find("k", pending), all}, map[string]Fact{"k": done, "l": other}, true,
		},
		"a lazy claim that was lost with its process is not overtaken": {
			[]Event{begin("k", pending, true), ack("k", pending)}, []Event{all}, map[string]Fact{"l": other}, false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			var l Ledger
			for i, events := range [][]Event{c.events, c.shown, later} {
				if i == 1 {
					l.Reopened()
				}
				for _, e := range events {
					require.NoError(t, l.Add(e))
				}
			}
			if err := l.Judge(c.seen); c.lost {
				require.ErrorIs(t, err, ErrLoss)
			} else {
				require.NoError(t, err)
			}
		})
	}
	t.Run("a process that is not shown an acknowledged record", func(t *testing.T) {
		var l Ledger
		for _, e := range reserved {
			require.NoError(t, l.Add(e))
		}
		l.Reopened()
		require.ErrorIs(t, l.Add(all), ErrLoss)
	})
}
