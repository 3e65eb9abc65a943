package main

import (
	"slices"
	"time"

	"github.com/redo-go/redo"
)

// An operation is the lines about one operation.
type operation struct {
	effects   []effect
	keys      []string // different ones, as the services got them
	bodies    []string // different successes
	broken    []string // codes of final failures of a Resume, or of a repetition after the success
	final     string   // the code of a failure that ended it
	notices   map[string]int
	calls     []*span
	unapplied []*span // calls that failed as not applied
	applied   string  // the code of a call that failed as applied
}

// A span is one call, from its begin to its end. A call of a killed process has no end.
type span struct {
	process      string
	number       int64
	began, ended time.Time
}

// operations returns the lines of each operation.
func (e evidence) operations() map[string]*operation {
	all := map[string]*operation{}
	of := func(name string) *operation {
		if all[name] == nil {
			all[name] = &operation{notices: map[string]int{}}
		}
		return all[name]
	}
	for _, one := range e.effects {
		op := of(one.Operation)
		op.effects = append(op.effects, one)
	}
	for _, one := range e.requests {
		if op := of(one.Operation); !slices.Contains(op.keys, one.Key) {
			op.keys = append(op.keys, one.Key)
		}
	}
	for _, one := range e.notices {
		of(one.Operation).notices[one.Run]++
	}
	for _, one := range e.calls {
		of(one.Operation).read(one)
	}
	return all
}

// read adds a line of a client.
func (op *operation) read(one call) {
	if one.Kind == begins {
		op.calls = append(op.calls, &span{process: one.Process, number: one.Number, began: one.At})
		return
	}
	switch {
	case one.Code == "":
		if !slices.Contains(op.bodies, one.Body) {
			op.bodies = append(op.bodies, one.Body)
		}
	case one.Kind != ends && one.Final:
		op.broken = append(op.broken, one.Code)
	case one.settles():
		op.final = one.Code
	}
	i := slices.IndexFunc(op.calls, func(c *span) bool { return c.process == one.Process && c.number == one.Number })
	if i < 0 {
		return
	}
	op.calls[i].ended = one.At
	switch one.Effect {
	case redo.NotApplied.String():
		op.unapplied = append(op.unapplied, op.calls[i])
	case redo.Applied.String():
		op.applied = one.Code
	}
}

// refutes reports whether an effect shows that a report of "not applied" is wrong. It is wrong if the effect was made
// before the report, or after it and before the next call. Beside another call of the same process, the report may be
// older than that call's effect.
func (op *operation) refutes(report *span) bool {
	before := time.Now()
	if next := op.after(report); next != nil {
		before = next.began
	}
	if op.beside(report) {
		before = report.began
	}
	return slices.ContainsFunc(op.effects, func(e effect) bool { return e.At.Before(before) })
}

// beside reports whether another call of the same process ran at the same time.
func (op *operation) beside(one *span) bool {
	return slices.ContainsFunc(op.calls, func(c *span) bool {
		return c != one && c.process == one.process && c.began.Before(one.ended) &&
			(c.ended.IsZero() || c.ended.After(one.began))
	})
}

// after returns the first call that began after the end of another one, nil if there is none.
func (op *operation) after(one *span) (next *span) {
	for _, c := range op.calls {
		if c.began.After(one.ended) && (next == nil || c.began.Before(next.began)) {
			next = c
		}
	}
	return next
}
