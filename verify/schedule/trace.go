package schedule

import (
	"fmt"
	"strings"
)

// A rule is a property that every run must keep.
type rule string

const (
	twoEffects      rule = "an operation has at most one effect"
	wrongNotApplied rule = "NotApplied is reported only if no effect has happened and none can still happen"
	wrongApplied    rule = "success and Applied are reported only after an effect"
	unsettled       rule = "a call without faults settles the operation"
	twoKeys         rule = "no second key is sent while the first may have its effect"
	stuck           rule = "every call returns"
)

// A violation is a rule that a run broke.
type violation struct {
	rule   rule
	detail string
	run    *run
}

// violate ends the run. The first violation counts.
func (r *run) violate(broken rule, format string, args ...any) {
	if r.found == nil && (r.only == "" || r.only == broken) {
		r.found = &violation{broken, fmt.Sprintf(format, args...), r}
	}
}

// String returns the rule, the seed and the steps.
func (v *violation) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "broken: %s\n%s\nseed %d, step %d", v.rule, v.detail, v.run.seed, v.run.steps)
	for _, e := range v.run.trace {
		fmt.Fprintf(&b, "\n%4d  ", e.step)
		if e.call == 0 {
			fmt.Fprintf(&b, "p%d    %s", e.process, e.what)
		} else {
			fmt.Fprintf(&b, "p%d.%-2d %s", e.process, e.call, e.what)
		}
		switch {
		case e.key != "":
			fmt.Fprintf(&b, " %s", v.run.keyName(e.key))
		case e.status != 0:
			fmt.Fprintf(&b, " %d", e.status)
		case e.note != "":
			fmt.Fprintf(&b, ": %s", e.note)
		}
	}
	return b.String()
}

// An entry is one line of the trace.
type entry struct {
	step, process, call int
	what, note, key     string
	status              int
}

func (r *run) logCall(process, call int, what, note string) {
	r.trace = append(r.trace, entry{step: r.steps, process: process, call: call, what: what, note: note})
}

func (r *run) logResult(process, call int, what, note string, err error) {
	if err != nil {
		note = strings.TrimPrefix(note+" → "+err.Error(), " → ")
	}
	r.logCall(process, call, what, note)
}

func (r *run) log(x *exchange, what string) {
	r.trace = append(r.trace, entry{step: r.steps, process: x.process, call: x.call, what: what})
}

func (r *run) logStatus(x *exchange, what string, status int) {
	r.trace = append(r.trace, entry{step: r.steps, process: x.process, call: x.call, what: what, status: status})
}

func (r *run) logKey(x *exchange, what, key string) {
	r.keyName(key)
	r.trace = append(r.trace, entry{step: r.steps, process: x.process, call: x.call, what: what, key: key})
}

// keyName numbers the keys in the order in which they were sent.
func (r *run) keyName(key string) string {
	n, ok := r.keys[key]
	if !ok {
		n = len(r.keys) + 1
		r.keys[key] = n
	}
	return fmt.Sprintf("K%d", n)
}
