package oneoperation

import (
	"context"
	"errors"
	"time"

	"github.com/redo-go/redo"
	"github.com/redo-go/redo/store"
)

// within runs calls that a person's decision waits for.
func within(under chan struct{}, calls func()) {
	under <- struct{}{}
	defer func() { <-under }()
	calls()
}

// person settles or forgets the operation now and then, until the life is over.
func (l *life) person(over <-chan struct{}) {
	for {
		select {
		case <-over:
			return
		case <-time.After(l.Span(2 * l.gap)):
			if !l.crowded || l.Draw(2) == 0 {
				l.alone(true, func(effect string) { l.decide(l.processes.Any().client, effect) })
			} else {
				l.alone(false, func(effect string) { l.decide(l.auditor, effect) })
			}
		}
	}
}

// alone runs a person's decision while no Do runs, no Resume if none may, and nothing is on the wire.
func (l *life) alone(noResume bool, decide func(effect string)) {
	for _, under := range []chan struct{}{l.dos, l.resumes} {
		if under == l.resumes && !noResume {
			continue
		}
		for range cap(under) {
			under <- struct{}{}
			defer func() { <-under }()
		}
	}
	for {
		effect, quiet := l.server.truth()
		if quiet {
			decide(effect)
			return
		}
		time.Sleep(l.Span(time.Second))
	}
}

// decide settles the operation with the truth, or forgets it if it has no effect. It takes no time if a Resume may run:
// one that has not sent its request must then send nothing.
func (l *life) decide(c *redo.Client, effect string) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if effect != "" || l.Draw(3) > 0 {
		l.settle(ctx, c, effect)
		return
	}
	err := c.Forget(ctx, operation)
	l.Log("a person forgets the operation: %v", err)
	if err == nil {
		l.server.closeToResumes("a person forgot it")
	}
}

// settle settles the operation with the truth.
func (l *life) settle(ctx context.Context, c *redo.Client, effect string) {
	f := l.finding(effect, "amira")
	err := c.Settle(ctx, operation, f)
	l.Log("a person settles the operation as %v, %s: %v", f.Effect, f.Evidence, err)
	l.audit()
	if err != nil {
		if errors.Is(err, redo.ErrContradiction) {
			l.Violate("the truth contradicts the record: %v", err)
		}
		return
	}
	if f.Effect == redo.NotApplied {
		l.server.closeToResumes("a person settled it as not applied")
	}
	op, err := l.auditor.Find(ctx, operation)
	if err == nil && (op.State == store.StatePending || op.Effect != f.Effect) {
		l.Violate("a person's finding %v is acknowledged, and the record is %v, %v", f.Effect, op.State, op.Effect)
	}
}
