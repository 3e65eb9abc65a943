package main

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo"
)

// The lines of op0-1, at seconds of an hour long ago.
var epoch = time.Now().Add(-time.Hour)

func at(second int) time.Time { return epoch.Add(time.Duration(second) * time.Second) }

func made(run string, second int) effect {
	return effect{Operation: "op0-1", Key: "k", Run: run, At: at(second)}
}

func taken(e effect) effect {
	e.TakenOver = true
	return e
}

func began(number int64, second int) call {
	return call{Operation: "op0-1", Process: "p", Number: number, Kind: begins, At: at(second)}
}

func succeeded(number int64, second int, run string) call {
	c := began(number, second)
	c.Kind, c.Body = ends, fmt.Sprintf(`{"operation":"op0-1","run":%q}`, run)
	return c
}

func failed(number int64, second int, effect redo.Effect, final bool) call {
	c := began(number, second)
	c.Kind, c.Code, c.Effect, c.Final = ends, "SOME.code", effect.String(), final
	return c
}

func notApplied(number int64, second int) call { return failed(number, second, redo.NotApplied, false) }

func again(c call) call {
	c.Kind = replays
	return c
}

func resumed(c call) call {
	c.Kind = resumes
	return c
}

func inProcess(name string, c call) call {
	c.Process = name
	return c
}

// Each rule has a case that breaks it, and one beside it that is right.
func TestTheCountFindsBrokenRules(t *testing.T) {
	once := []call{began(1, 1), succeeded(1, 3, "a")}
	key, handled := request{"op0-1", "k"}, notice{"op0-1", "a"}
	for _, c := range []struct {
		rule string
		mode string
		evidence
		want tally
	}{
		{
			"one effect", "transaction",
			evidence{effects: []effect{made("a", 2)}, requests: []request{key, key}, calls: once},
			tally{Operations: 1, Successes: 1, Effects: 1},
		},
		{
			"two effects", "transaction",
			evidence{effects: []effect{made("a", 2), made("b", 2)}, calls: once},
			tally{Operations: 1, Successes: 1, Effects: 2, Duplicates: 1},
		},
		{
			"two effects in the documented gap", "rerun",
			evidence{effects: []effect{made("b", 2), taken(made("a", 2))}, calls: once},
			tally{Operations: 1, Successes: 1, Effects: 2, TakenOver: 1, Gap: 1},
		},
		{
			"two effects without a take-over", "rerun",
			evidence{effects: []effect{made("a", 2), made("b", 2)}, calls: once},
			tally{Operations: 1, Successes: 1, Effects: 2, Duplicates: 1},
		},
		{
			"two effects after a take-over, in a mode without a gap", "recover",
			evidence{effects: []effect{made("a", 2), taken(made("b", 2))}, calls: once},
			tally{Operations: 1, Successes: 1, Effects: 2, TakenOver: 1, Duplicates: 1},
		},
		{
			"a success without an effect", "recover", evidence{calls: once},
			tally{Operations: 1, Successes: 1, Losses: 1},
		},
		{
			"a success with the effect of another run", "recover",
			evidence{effects: []effect{made("b", 2)}, calls: once},
			tally{Operations: 1, Successes: 1, Effects: 1, Losses: 1},
		},
		{
			"the same response again", "recover",
			evidence{effects: []effect{made("a", 2)}, calls: append(slices.Clone(once), again(succeeded(2, 4, "a")))},
			tally{Operations: 1, Successes: 1, Effects: 1},
		},
		{
			"another response later", "recover",
			evidence{effects: []effect{made("a", 2)}, calls: append(slices.Clone(once), again(succeeded(2, 4, "b")))},
			tally{Operations: 1, Successes: 1, Effects: 1, ChangedResponses: 1},
		},
		{
			"a refusal after the success", "recover",
			evidence{effects: []effect{made("a", 2)}, calls: append(slices.Clone(once), again(failed(2, 4, 0, true)))},
			tally{Operations: 1, Successes: 1, Effects: 1, ChangedResponses: 1},
		},
		{
			"a Resume that is refused for good", "recover",
			evidence{effects: []effect{made("a", 2)}, calls: append(slices.Clone(once), resumed(failed(2, 4, 0, true)))},
			tally{Operations: 1, Successes: 1, Effects: 1, ChangedResponses: 1},
		},
		{
			"a Resume that fails on the way", "recover",
			evidence{effects: []effect{made("a", 2)}, calls: append(slices.Clone(once), resumed(failed(2, 4, 0, false)))},
			tally{Operations: 1, Successes: 1, Effects: 1},
		},
		{
			"failed as applied, without an effect", "refuse",
			evidence{calls: []call{began(1, 1), failed(1, 3, redo.Applied, true)}},
			tally{Operations: 1, Refused: 1, Losses: 1},
		},
		{
			"failed as applied, with an effect", "refuse",
			evidence{effects: []effect{made("a", 2)}, calls: []call{began(1, 1), failed(1, 3, redo.Applied, true)}},
			tally{Operations: 1, Refused: 1, Effects: 1},
		},
		{
			"a failure on the way, after the success", "recover",
			evidence{effects: []effect{made("a", 2)}, calls: append(slices.Clone(once), again(failed(2, 4, 0, false)))},
			tally{Operations: 1, Successes: 1, Effects: 1},
		},
		{
			"two keys", "transaction",
			evidence{effects: []effect{made("a", 2)}, requests: []request{key, {"op0-1", "l"}}, calls: once},
			tally{Operations: 1, Successes: 1, Effects: 1, ChangedKeys: 1},
		},
		{
			"stuck", "transaction", evidence{calls: once[:1], stuck: []string{"op0-1"}}, tally{Stuck: 1},
		},
		{"no end", "transaction", evidence{calls: once[:1]}, tally{Stuck: 1}},
		{
			"refused in a mode that refuses", "refuse",
			evidence{effects: []effect{made("a", 2)}, calls: []call{began(1, 1), failed(1, 3, 0, true)}},
			tally{Operations: 1, Refused: 1, Effects: 1},
		},
		{
			"refused in another mode", "recover",
			evidence{effects: []effect{made("a", 2)}, calls: []call{began(1, 1), failed(1, 3, 0, true)}},
			tally{Operations: 1, Effects: 1, Stuck: 1},
		},
		{
			"a handled event", "transaction",
			evidence{effects: []effect{made("a", 2)}, notices: []notice{handled}, calls: once, events: true},
			tally{Operations: 1, Successes: 1, Effects: 1, Handled: 1},
		},
		{
			"an event handled twice", "transaction",
			evidence{effects: []effect{made("a", 2)}, notices: []notice{handled, handled}, calls: once, events: true},
			tally{Operations: 1, Successes: 1, Effects: 1, Handled: 2, Duplicates: 1},
		},
		{
			"an event lost", "transaction", evidence{effects: []effect{made("a", 2)}, calls: once, events: true},
			tally{Operations: 1, Successes: 1, Effects: 1, Losses: 1},
		},
		{
			"an event of no effect", "refuse",
			evidence{notices: []notice{handled}, calls: []call{began(1, 1), failed(1, 3, 0, true)}, events: true},
			tally{Operations: 1, Refused: 1, Handled: 1, Duplicates: 1},
		},
		{
			"not applied, and applied by the next call", "recover",
			evidence{
				effects: []effect{made("a", 5)},
				calls:   []call{began(1, 1), notApplied(1, 3), began(2, 4), succeeded(2, 6, "a")},
			},
			tally{Operations: 1, Successes: 1, Effects: 1, Unapplied: 1},
		},
		{
			"not applied, and applied before", "recover",
			evidence{
				effects: []effect{made("a", 2)},
				calls:   []call{began(1, 1), notApplied(1, 3), began(2, 4), succeeded(2, 6, "a")},
			},
			tally{Operations: 1, Successes: 1, Effects: 1, Unapplied: 1, WrongReports: 1},
		},
		{
			"not applied, and applied before the next call", "recover",
			evidence{
				effects: []effect{made("a", 4)},
				calls:   []call{began(1, 1), notApplied(1, 3), began(2, 5), succeeded(2, 6, "a")},
			},
			tally{Operations: 1, Successes: 1, Effects: 1, Unapplied: 1, WrongReports: 1},
		},
		{
			"not applied, and applied by a call beside it", "recover",
			evidence{
				effects: []effect{made("a", 3)},
				calls:   []call{began(1, 1), began(2, 1), notApplied(1, 4), succeeded(2, 5, "a")},
			},
			tally{Operations: 1, Successes: 1, Effects: 1, Unapplied: 1},
		},
		{
			"not applied, and applied by a call of a killed process", "recover",
			evidence{
				effects: []effect{made("a", 3)},
				calls:   []call{inProcess("q", began(1, 1)), began(2, 1), notApplied(2, 4), began(3, 5), succeeded(3, 6, "a")},
			},
			tally{Operations: 1, Successes: 1, Effects: 1, Unapplied: 1, WrongReports: 1},
		},
	} {
		t.Run(c.rule, func(t *testing.T) {
			m, err := modeOf(c.mode)
			require.NoError(t, err)
			c.want.Rounds = 1
			got, violations := c.count(m)
			require.Equal(t, c.want, got, violations)
			rules := got.Duplicates + got.Losses + got.ChangedResponses + got.ChangedKeys + got.Stuck + got.WrongReports
			require.Len(t, violations, rules)
		})
	}
}
