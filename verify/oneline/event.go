package oneline

import (
	"context"
	"errors"
	"sync"

	"github.com/redo-go/redo/outbox"
	"github.com/redo-go/redo/store"
)

// An event is one of a life, with its deliveries.
type event struct {
	outbox.Event
	life *life

	mu           sync.Mutex
	tries        int  // of the producer
	enqueued     bool // the producer knows it
	deliveries   []*delivery
	acknowledged int
	counted      int // attempts since the last redrive that the schedule counts
	redrives     int // calls of Redrive that have begun
	ongoing      int // those that have not ended
	drops        int // calls of Drop, without those that found no letter
}

// A delivery is one call of the publisher.
type delivery struct {
	p        *process
	ctx      context.Context //nolint:containedctx // its end shows that the lease is lost
	ended    bool
	redrives int // of the event, before it began
}

// busy reports whether the delivery is under way in a process that knows whether it has the lease.
func (d *delivery) busy() bool {
	return !d.ended && d.ctx.Err() == nil && !d.p.Dead.Load() && !d.p.late()
}

// enqueue appends the event through one of the processes. It reports whether the queue has it.
func (l *life) enqueue(e *event) bool {
	e.mu.Lock()
	e.tries++
	first := e.tries == 1
	e.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), queueTimeout)
	defer cancel()
	err := l.processes.Any().queue.Append(ctx, e.Event)
	l.Log("%s is enqueued: %v", e.ID, err)
	switch {
	case errors.Is(err, outbox.ErrDuplicate) && first:
		l.Violate("%s is in the queue already", e.ID)
	case err != nil && !errors.Is(err, outbox.ErrDuplicate) && !passing(err):
		l.Violate("Append: %v", err)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.enqueued = err == nil || errors.Is(err, outbox.ErrDuplicate)
	return e.enqueued
}

// passing reports whether the error is one of a queue that can't be reached.
func passing(err error) bool {
	return errors.Is(err, store.ErrUnavailable) || errors.Is(err, store.ErrUnknown) ||
		errors.Is(err, context.DeadlineExceeded)
}

// begin checks that the event may be delivered now.
func (e *event) begin(ctx context.Context, p *process, got outbox.Event) *delivery {
	l := e.life
	l.Log("%s begins to deliver %s", p.Name, e.ID)
	state := l.state(e)
	for _, earlier := range l.events {
		if earlier == e {
			break
		}
		if e.OrderingKey != "" && earlier.OrderingKey == e.OrderingKey && earlier.Destination == e.Destination && !p.late() {
			earlier.checkEnded(e)
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	d := &delivery{p: p, ctx: ctx, redrives: e.redrives}
	for _, other := range e.deliveries {
		if other.busy() && !p.late() {
			l.Violate("%s begins to deliver %s while %s delivers it", p.Name, e.ID, other.p.Name)
		}
	}
	switch {
	case e.tries == 0 || got.Destination != e.Destination || got.OrderingKey != e.OrderingKey:
		l.Violate("%s is delivered as %+v", e.ID, got)
	case state != outbox.StateWaiting && !p.late():
		l.Violate("%s is delivered in the state %d", e.ID, state)
	case e.counted >= l.settings.attempts && !p.late() && !l.Calm.Load():
		l.Violate("%s has had %d attempts, and is delivered", e.ID, e.counted)
	}
	e.deliveries = append(e.deliveries, d)
	return d
}

// checkEnded checks that the event does not hold up the later one of its line.
func (e *event) checkEnded(later *event) {
	l := e.life
	state := l.state(e)
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case e.acknowledged > 0, state == 0: // sent or dropped
	case e.redrives > 0 && !l.settings.holds: // the later one may have been claimed before
	case state == outbox.StateWaiting, l.settings.holds:
		l.Violate("%s is delivered before %s", later.ID, e.ID)
	}
}

// end is the end of a delivery. It counts attempts that may have been sent.
func (e *event) end(d *delivery, err error) {
	e.life.Log("%s ends the delivery of %s: %v", d.p.Name, e.ID, err)
	e.mu.Lock()
	defer e.mu.Unlock()
	d.ended = true
	switch {
	case d.p.Dead.Load():
	case err == nil:
		e.acknowledged++
	case errors.Is(err, errFailed) && d.redrives == e.redrives && e.ongoing == 0:
		e.counted++
	}
}

// state returns the state of the event in the queue. Zero means that it is not there: it is sent, dropped or not
// enqueued yet.
func (l *life) state(e *event) outbox.State {
	for entry, err := range l.queue.Events(context.Background(), outbox.Selection{ID: e.ID}) {
		if err != nil {
			l.Violate("the queue can't be listed: %v", err)
		}
		return entry.State
	}
	return 0
}

func (l *life) event(id string) *event {
	for _, e := range l.events {
		if e.ID == id {
			return e
		}
	}
	l.Violate("there is no event %q", id)
	return l.events[0]
}
