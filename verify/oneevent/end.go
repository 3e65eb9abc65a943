package oneevent

import (
	"context"
	"time"

	"github.com/redo-go/redo/inbox"
)

// settle brings an event that is handled in its delivery to its end, when the faults are over.
func (l *life) settle(e *event) {
	last := l.acknowledged(e)
	if last == nil {
		return
	}
	p := l.processes.At(0)
	if last.Dead() && !e.dropping {
		if n := l.letters(p); n != 1 {
			l.Violate("the list has %d dead letters, and %s is one", n, e.id)
		}
		if l.Draw(3) == 0 {
			if err := l.drop(p, e); err != nil {
				l.Violate("the dead letter %s can't be dropped: %v", e.id, err)
			}
		} else if !l.redrive(p, e) || !e.handled {
			l.Violate("the dead letter %s can't be redriven", e.id)
		}
		last = l.acknowledged(e)
	}
	if last.Dead() && l.letters(p) == 1 && l.drop(p, e) != nil {
		l.Violate("the dead letter %s can't be dropped", e.id)
	}
	l.check(e, l.acknowledged(e))
	if letters, waiting := l.letters(p), l.waiting(p); letters != 0 || waiting != 0 {
		l.Violate("%d events are dead and %d wait in the end", letters, waiting)
	}
}

// settleAccepted brings the events of the queue to their end.
func (l *life) settleAccepted() {
	for _, e := range l.events {
		l.acknowledged(e)
	}
	p := l.processes.At(0)
	for range len(l.events) {
		l.emptied()
		for _, e := range l.events {
			e.mu.Lock()
			dead := e.dead
			e.mu.Unlock()
			if l.letters(p); dead && l.Draw(3) == 0 {
				_ = l.drop(p, e)
			} else {
				l.redrive(p, e) // of an event that is no letter too
			}
		}
	}
	l.emptied()
	if stats, err := l.queue.Stats(context.Background()); err != nil || stats.Waiting > 0 || stats.Dead > 0 {
		l.Violate("the queue is not empty in the end: %+v %v", stats, err)
	}
	for _, e := range l.events {
		l.check(e, l.acknowledged(e))
	}
	l.emptied()
}

// emptied waits until no event waits in the queue, or all wait behind a dead letter.
func (l *life) emptied() {
	for range 20 {
		stats, _ := l.queue.Stats(context.Background())
		if stats.Waiting == 0 || l.holds && stats.Dead > 0 {
			return
		}
		time.Sleep(time.Minute / 2)
	}
	l.Violate("an event of the queue is stuck")
}

// acknowledged delivers the event until it is acknowledged.
func (l *life) acknowledged(e *event) *inbox.Receipt {
	for i := range 6 {
		payload := "payload of " + e.id
		switch {
		case e.fits != "" && !(l.accepts && e.forgets > 0):
			payload = e.fits
		case i%2 == 1: // the queue may have the other one, and nothing has shown that yet
			payload = "another " + payload
		}
		if r := l.deliver(e, payload); r != nil {
			return r
		}
		time.Sleep(2 * leaseTTL)
	}
	l.Violate("%s is not acknowledged after the faults", e.id)
	return nil
}

// check checks the last receipt of an event.
func (l *life) check(e *event, last *inbox.Receipt) {
	switch {
	case last == nil, last.Status == inbox.Accepted && e.dropping: // the queue has forgotten it, and the inbox has not
	case last.Status != inbox.Replayed:
		l.Violate("%s is %v in the end", e.id, last.Status)
	case last.Dead() && !e.dropping:
		l.Violate("%s is dead in the end, and nobody has dropped it", e.id)
	}
}
