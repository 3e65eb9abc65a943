package oneevent

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/redo-go/redo/inbox"
	"github.com/redo-go/redo/outbox"
	"github.com/redo-go/redo/store"
)

// An event is one of a life, with its effects in the consumer's ledger, and what clients and handlers have seen of it.
type event struct {
	life *life
	id   string
	sent bool // the producer has got an acknowledgement of the event before it

	mu       sync.Mutex
	newest   int // the attempt that began last
	effects  []string
	runs     []*run
	fits     string          // the event's payload, once it is known
	refused  map[string]bool // payloads that do not fit
	handled  bool            // a receipt shows it
	dead     bool            // a receipt or a list shows it, and no redrive has begun since
	dropped  bool            // a call of Drop returned nil
	dropping bool            // Drop was called
	forgets  int             // calls of Drop, without those that found no letter
	redrives int             // calls of Redrive that have begun
	ongoing  int             // those that have not ended
	rests    time.Time       // when the rest after the last failure ends

	processed int // receipts
}

// begin checks that the handler may run.
func (e *event) begin(r *run) {
	l, ev := e.life, r.ev
	l.Log("%s begins %s, attempt %d, redrive: %v", r.p.Name, e.id, ev.Attempt, r.redrive)
	for _, other := range l.events {
		if other == e {
			break
		}
		e.checkOrder(other)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, earlier := range e.runs {
		if earlier.busy() {
			l.Violate("%s begins attempt %d of %s while %s makes attempt %d",
				r.p.Name, ev.Attempt, e.id, earlier.p.Name, earlier.ev.Attempt)
		}
	}
	switch {
	case ev.Attempt <= e.newest:
		l.Violate("attempt %d of %s begins after attempt %d", ev.Attempt, e.id, e.newest)
	case e.handled:
		l.Violate("a handler of %s begins although it was handled", e.id)
	case e.dropped:
		l.Violate("a handler of %s begins although it was dropped", e.id)
	case e.dead && !r.redrive && !(l.accepts && r.p.late()):
		l.Violate("a handler of %s begins although it is dead", e.id)
	case !r.redrive && time.Now().Before(e.rests):
		l.Violate("a handler of %s begins although it rests for %v", e.id, time.Until(e.rests))
	case e.fits != "" && e.fits != string(ev.Payload):
		l.Violate("a handler of %s gets the payload %q, instead of %q", e.id, ev.Payload, e.fits)
	}
	e.fit(string(ev.Payload))
	e.newest = ev.Attempt
	r.redrives = e.redrives
	e.runs = append(e.runs, r)
}

// checkOrder checks that the earlier event does not wait in the queue when e begins.
func (e *event) checkOrder(earlier *event) {
	l, ctx := e.life, context.Background()
	earlier.mu.Lock()
	free := earlier.redrives > 0 && !l.holds
	earlier.mu.Unlock()
	rec, err := l.store.Find(ctx, store.ID{Scope: "inbox/" + source, Key: earlier.id})
	if free || err == nil && rec.State != store.StatePending {
		return
	}
	for entry, err := range l.queue.Events(ctx, outbox.Selection{ID: earlier.id}) {
		if err != nil {
			l.Violate("the queue can't be listed: %v", err)
			return
		}
		if entry.State != outbox.StateDead || l.holds {
			l.Violate("a handler of %s begins before %s is handled", e.id, earlier.id)
		}
	}
}

// end is the end of a handler.
func (e *event) end(r *run, err error) {
	e.life.Log("%s ends %s, attempt %d: %v", r.p.Name, e.id, r.ev.Attempt, err)
	e.mu.Lock()
	defer e.mu.Unlock()
	r.ended, r.err = time.Now(), err
	r.held = err == nil && r.ctx.Err() == nil && !e.life.accepts && !r.p.late()
}

// over is the end of the run's delivery or redrive.
func (e *event) over(r *run) {
	e.mu.Lock()
	defer e.mu.Unlock()
	r.held = false
}

func (e *event) made() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.effects) > 0
}

// apply makes the effect, unless a later attempt has begun.
func (e *event) apply(r *run) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if r.ev.Attempt < e.newest {
		return false
	}
	e.effects = append(e.effects, fmt.Sprintf("attempt %d", r.ev.Attempt))
	e.life.Log("%s makes the effect of %s", r.p.Name, e.id)
	if len(e.effects) > 1 {
		e.life.Violate("%s has the effects %v", e.id, e.effects)
	}
	return true
}

// fit records that the payload is the event's. The caller holds the lock. A queue forgets an event that was dropped.
// Then it takes any payload, and the inbox does not handle it.
func (e *event) fit(payload string) {
	if e.life.accepts && e.forgets > 0 {
		return
	}
	if e.fits == "" {
		e.fits = payload
	}
	if e.fits != payload || e.refused[payload] {
		e.life.Violate("%s has the payload %q, and %q is accepted", e.id, e.fits, payload)
	}
}

// refuse records that the payload is not the event's. The caller holds the lock.
func (e *event) refuse(payload string) {
	if e.life.accepts && e.forgets > 0 {
		return
	}
	e.refused[payload] = true
	if e.fits == payload {
		e.life.Violate("%s has the payload %q, and it is refused", e.id, payload)
	}
}

// A seen is the state of an event before a call that may show that it is dead.
type seen struct{ redrives, ongoing int }

func (e *event) look() seen {
	e.mu.Lock()
	defer e.mu.Unlock()
	return seen{e.redrives, e.ongoing}
}

// died records that a call which began at s has shown that the event is dead. The caller holds the lock.
func (e *event) died(s seen) {
	if s != (seen{e.redrives, 0}) {
		return
	}
	if e.handled {
		e.life.Violate("%s was handled, and is dead now", e.id)
	}
	e.dead = true
}

// receive checks a receipt. payload is "" for a redrive.
func (e *event) receive(r inbox.Receipt, payload string, s seen) {
	l := e.life
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case r.PayloadMismatch:
		e.refuse(payload)
	case payload != "":
		e.fit(payload)
	}
	if r.Status == inbox.Processed {
		e.processed++
	}
	handled := r.Status == inbox.Processed || r.Status == inbox.Replayed && !r.Dead()
	switch {
	case r.Unknown:
		l.Violate("the effect of %s is unknown", e.id)
	case e.processed > 1:
		l.Violate("%s was processed twice", e.id)
	case handled && e.dropped && !l.accepts: // a queue can have a letter of an event that was handled
		l.Violate("%s was dropped, and is handled", e.id)
	case handled && len(e.effects) == 0:
		l.Violate("%s has the receipt %v without an effect", e.id, r.Status)
	case r.Dead():
		e.died(s)
	case handled:
		e.handled = true
	}
}
