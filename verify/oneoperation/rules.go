package oneoperation

import (
	"context"
	"fmt"
	"time"

	"github.com/redo-go/redo"
	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/taxonomy"
)

// check compares what a caller sees with what has happened. body is "" if the caller does not see it.
func (l *life) check(p *process, what, body string, err error, e *redo.Error) {
	if p.Dead.Load() {
		return
	}
	effect, _ := l.server.truth()
	switch {
	case err == nil:
		l.Log("%s: %s succeeds: %q", p.Name, what, body)
		l.returned.Add(1)
		if effect == "" || what != "ResumeEvery" && body != effect {
			l.Violate("%s of %s returns the success %q, and the effect is %q", what, p.Name, body, effect)
		}
	case e == nil:
		l.Violate("%s of %s returns %v, which is no *redo.Error", what, p.Name, err)
	default:
		l.Log("%s: %s fails, safe to retry: %v: %v", p.Name, what, redo.SafeToRetry(err), err)
		l.checkEffect(p, what, effect, err, e)
	}
	l.audit()
}

// keeping is how long ResumeEvery may take to keep the time of the next attempt, before it reports the last one.
const keeping = 5 * time.Second

func (l *life) checkEffect(p *process, what, effect string, err error, e *redo.Error) {
	switch {
	case e.Effect == redo.Applied && effect == "":
		l.Violate("%s of %s reports an effect that has not happened", what, p.Name)
	case e.Effect != redo.NotApplied:
	case what == "ResumeEvery" && l.server.overtakes(p, keeping): // after its Resume, and before its report
	case effect != "":
		l.Violate("%s of %s reports NotApplied after the effect %s", what, p.Name, effect)
	case l.server.anyAlive():
		l.Violate("%s of %s reports NotApplied, and a request on the wire can still have an effect", what, p.Name)
	case !redo.SafeToRetry(err) && !e.Code.In(taxonomy.Auth): // after refused credentials it stays pending
		l.server.close(fmt.Sprintf("%s of %s was refused for good", what, p.Name))
	}
}

// A settled is what a record of the operation showed when it was settled.
type settled struct {
	state   store.State
	finding redo.Finding
}

// audit reads the operation's record without faults. A settled record stays as it is until the operation starts anew.
func (l *life) audit() {
	l.auditing.Lock()
	defer l.auditing.Unlock()
	op, err := l.auditor.Find(context.Background(), operation)
	if err != nil || op.State == store.StatePending && op.Finding == nil {
		if old, known := l.settled[op.CreatedAt]; err == nil && known {
			l.Violate("the operation is pending again after %v", old)
		}
		return
	}
	now := settled{state: op.State}
	if op.Finding != nil {
		now.finding = *op.Finding
	}
	old, known := l.settled[op.CreatedAt]
	l.settled[op.CreatedAt] = now
	if known && old != now {
		l.Violate("the settled record %v became %v", old, now)
	}
}
