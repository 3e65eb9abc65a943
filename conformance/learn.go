package conformance

import (
	"net/http"
	"slices"
	"sync"

	"github.com/redo-go/redo/internal/wire"
)

// learned holds the facts that a run learns about its target before it judges. Servers that keep the rules differ
// in much else.
type learned struct {
	counts  bool     // the counter of effects was seen to count
	telling []aspect // the aspects in which responses to different operations differ

	// replays is the status of a replay if it differs from the first response's status, and zero otherwise.
	// replay-status judges it.
	replays int
	// ignoresPayload is set if a key replays for any payload. mismatch-body judges it.
	ignoresPayload bool
	// rewrites holds the aspects that a replay has different. replay-body and replay-headers judge them.
	rewrites []aspect
}

// learnReplay learns the form of this target's replays from one of them.
func (l *learned) learnReplay(first, again *answer) {
	if again.status != first.status {
		l.replays = again.status
	}
	l.rewrites = differences(first, again)
}

// alike reports whether two responses belong to one operation. It compares status and body only as far as this
// target's replays keep them. A separate case judges each part that they do not keep, so that one deviation is one
// failure.
func (l *learned) alike(a, b *answer) bool {
	if a.err != nil || b.err != nil {
		return false
	}
	if a.status != b.status && (l.replays == 0 || a.status != l.replays && b.status != l.replays) {
		return false
	}
	return slices.Contains(l.rewrites, aspectBody) || slices.Equal(a.content(), b.content())
}

// lesson is the result of an operation under a fresh key.
type lesson struct {
	mu      sync.Mutex
	known   bool
	effects int
	answer  *answer
}

// lesson returns the result of an operation under a fresh key. It runs the operation once per run. It ends the
// trial unless the operation succeeds.
func (t *trial) lesson(o Operation) *lesson { return t.lessonBy(o, 0) }

// lessonBy is lesson for the principal with the given index.
func (t *trial) lessonBy(o Operation, by int) *lesson {
	name := o.String() + "\x00" + string(rune('0'+by))
	t.run.mu.Lock()
	l := t.run.lessons[name]
	if l == nil {
		l = new(lesson)
		t.run.lessons[name] = l
	}
	t.run.mu.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.known {
		return l
	}
	r := t.request(o, t.key(), t.payloadBy(by))
	if by > 0 {
		r = t.as(r, t.run.target.Principals[by])
	}
	t.anew()
	l.answer = t.accept("the same under a fresh key, to learn what it does", r)
	if t.run.target.Effects != nil && t.run.counts {
		l.effects = t.effects(1)
		if settle := t.run.target.settle(); l.effects > 0 && settle > 0 { // it may have more effects than one
			t.wait(settle)
			l.effects = t.effects(1)
		}
		t.tally.base += l.effects
		t.tally.before = t.tally.operations()
	}
	l.known = true
	return l
}

// use returns a variant of the main operation, after it has learned the number of effects of the variant.
func (t *trial) use(o Operation) Operation {
	o = t.variant(o)
	if o.String() == t.operation().String() || !t.fx() {
		return o
	}
	n := t.lesson(o).effects
	t.tally.unit, t.tally.uncounted = n, n == 0
	return o
}

// isOurs reports whether a response has a header of redo, so that the rules of redo apply to the server. Another server
// may have a header of that name with other values.
func isOurs(h http.Header) bool {
	status := h.Get(wire.HeaderStatus)
	return status == wire.StatusStored || status == wire.StatusReplayed
}
