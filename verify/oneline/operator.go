package oneline

import (
	"context"
	"errors"
	"time"

	"github.com/redo-go/redo/outbox"
)

// operate redrives and drops events, enables destinations, changes their moods and ends processes, while there are
// faults.
func (l *life) operate() {
	for range operations {
		time.Sleep(l.Span(2 * leaseTTL))
		p, e := l.processes.Any(), l.events[l.Draw(len(l.events))]
		switch n := l.Draw(12); {
		case n < 3:
			l.redrive(p, e)
		case n < 4:
			l.drop(p, e)
		case n < 6:
			ctx, cancel := context.WithTimeout(context.Background(), queueTimeout)
			l.Log("%s enables %s: %v", p.Name, e.Destination, p.relay.Enable(ctx, e.Destination))
			cancel()
		case n < 7:
			if !p.Killed() {
				p.end()
			}
		default:
			mood := int32(l.Draw(int(moods)))
			l.Log("%s gets the mood %d", e.Destination, mood)
			l.destinations[e.Destination].mood.Store(mood)
		}
	}
}

func (l *life) redrive(p *process, e *event) {
	ctx, cancel := context.WithTimeout(context.Background(), queueTimeout)
	defer cancel()
	e.mu.Lock()
	e.redrives++
	e.ongoing++
	e.counted = 0
	e.mu.Unlock()
	defer func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.ongoing--
	}()
	err := p.queue.Redrive(ctx, e.ID, e.Destination)
	l.Log("%s redrives %s: %v", p.Name, e.ID, err)
	if err != nil && !errors.Is(err, outbox.ErrNoLetter) && !passing(err) {
		l.Violate("Redrive of %s: %v", e.ID, err)
	}
}

// drop gives the event up.
func (l *life) drop(p *process, e *event) {
	ctx, cancel := context.WithTimeout(context.Background(), queueTimeout)
	defer cancel()
	e.mu.Lock()
	enqueued := e.enqueued
	if enqueued {
		e.drops++
	}
	e.mu.Unlock()
	if !enqueued {
		return // the producer would enqueue it again
	}
	err := p.queue.Drop(ctx, e.ID, e.Destination)
	l.Log("%s drops %s: %v", p.Name, e.ID, err)
	switch {
	case errors.Is(err, outbox.ErrNoLetter):
		e.mu.Lock()
		e.drops--
		e.mu.Unlock()
	case err != nil && !passing(err):
		l.Violate("Drop of %s: %v", e.ID, err)
	}
}
