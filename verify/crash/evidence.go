package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// evidence is what the processes of a round have written independently of redo.
type evidence struct {
	effects  []effect
	requests []request
	calls    []call
	notices  []notice
	events   bool // each effect must have a notice
	stuck    []string
}

// keep writes the violations, and the lines that are in a store, beside the files of the processes.
func (e evidence) keep(dir string, violations []string) error {
	text := strings.Join(violations, "\n") + "\n"
	err := os.WriteFile(filepath.Join(dir, "violations"), []byte(text), 0o644)
	effects, errEffects := json.MarshalIndent(e.effects, "", " ")
	notices, errNotices := json.MarshalIndent(e.notices, "", " ")
	return errors.Join(err, errEffects, errNotices,
		os.WriteFile(filepath.Join(dir, "effects.json"), effects, 0o644),
		os.WriteFile(filepath.Join(dir, "notices.json"), notices, 0o644))
}

// A tally counts the operations of a mode, and the broken rules.
type tally struct {
	Rounds int `json:"rounds"`
	harm
	Operations int `json:"operations"` // that came to their end
	Successes  int `json:"successes"`
	Refused    int `json:"refused"` // that ended with an unknown outcome, as the mode allows
	Effects    int `json:"effects"`
	Handled    int `json:"handled"` // events
	TakenOver  int `json:"taken_over"`
	Gap        int `json:"gap"`       // second effects in the documented gap
	Unapplied  int `json:"unapplied"` // reports of "not applied"

	Duplicates       int `json:"duplicates"`
	Losses           int `json:"losses"`
	ChangedResponses int `json:"changed_responses"`
	ChangedKeys      int `json:"changed_keys"`
	Stuck            int `json:"stuck"`
	WrongReports     int `json:"wrong_reports"`
}

func (t *tally) add(other tally) {
	t.harm.add(other.harm)
	for _, sum := range []struct {
		to   *int
		more int
	}{
		{&t.Rounds, other.Rounds},
		{&t.Operations, other.Operations},
		{&t.Successes, other.Successes},
		{&t.Refused, other.Refused},
		{&t.Effects, other.Effects},
		{&t.Handled, other.Handled},
		{&t.TakenOver, other.TakenOver},
		{&t.Gap, other.Gap},
		{&t.Unapplied, other.Unapplied},
		{&t.Duplicates, other.Duplicates},
		{&t.Losses, other.Losses},
		{&t.ChangedResponses, other.ChangedResponses},
		{&t.ChangedKeys, other.ChangedKeys},
		{&t.Stuck, other.Stuck},
		{&t.WrongReports, other.WrongReports},
	} {
		*sum.to += sum.more
	}
}

// count judges a round in a mode. Each violation names its operation.
func (e evidence) count(m mode) (t tally, violations []string) {
	broken := func(counter *int, name, format string, args ...any) {
		*counter++
		violations = append(violations, name+": "+fmt.Sprintf(format, args...))
	}
	t.Rounds = 1
	for _, name := range e.stuck {
		broken(&t.Stuck, name, "it has not come to its end")
	}
	for name, op := range e.operations() {
		t.Effects += len(op.effects)
		runs, taken := map[string]bool{}, 0
		for _, one := range op.effects {
			runs[one.Run] = true
			if one.TakenOver {
				taken++
			}
		}
		t.TakenOver += taken
		if second := len(op.effects) - 1; second > 0 {
			gap := 0
			if m.mayRepeat {
				gap = min(second, taken)
			}
			t.Gap += gap
			for range second - gap {
				broken(&t.Duplicates, name, "it has %d effects, %d of them after a take-over", second+1, taken)
			}
		}
		if len(op.bodies) > 1 || len(op.bodies) > 0 && len(op.broken) > 0 {
			broken(&t.ChangedResponses, name, "its callers got %q, and failures %q", op.bodies, op.broken)
		}
		if len(op.keys) > 1 {
			broken(&t.ChangedKeys, name, "it came with the keys %q", op.keys)
		}
		e.countEvents(name, op, runs, &t, broken)
		t.Unapplied += len(op.unapplied)
		for _, r := range op.unapplied {
			if op.refutes(r) {
				broken(&t.WrongReports, name, `it was reported as not applied at %s, and has an effect`,
					r.ended.Format(time.StampMilli))
			}
		}
		if op.applied != "" && len(op.effects) == 0 {
			broken(&t.Losses, name, "it failed with %s as applied, and has no effect", op.applied)
		}
		switch {
		case len(op.bodies) > 0:
			t.Operations++
			t.Successes++
			var got receipt
			if json.Unmarshal([]byte(op.bodies[0]), &got) != nil || !runs[got.Run] || got.Operation != name {
				broken(&t.Losses, name, "it succeeded with %q, and has no such effect", op.bodies[0])
			}
		case op.final != "" && m.mayRefuse:
			t.Operations++
			t.Refused++
		case op.final != "":
			t.Operations++
			broken(&t.Stuck, name, "it ended with %s, and nothing settles it", op.final)
		case len(op.calls) > 0 && !slices.Contains(e.stuck, name):
			broken(&t.Stuck, name, "it has no end")
		}
	}
	slices.Sort(violations)
	return t, violations
}

// countEvents checks that each effect of a success was handled once, and nothing else.
func (e evidence) countEvents(
	name string, op *operation, runs map[string]bool, t *tally, broken func(*int, string, string, ...any),
) {
	for run, n := range op.notices {
		t.Handled += n
		if !runs[run] {
			broken(&t.Duplicates, name, "the event of run %s was handled, and there is no such effect", run)
		}
		for range n - 1 {
			broken(&t.Duplicates, name, "the event of run %s was handled %d times", run, n)
		}
	}
	if !e.events || len(op.bodies) == 0 || len(e.stuck) > 0 {
		return
	}
	for run := range runs {
		if op.notices[run] == 0 {
			broken(&t.Losses, name, "the event of run %s was not handled", run)
		}
	}
}
