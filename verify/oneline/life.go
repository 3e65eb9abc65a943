package oneline

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redo-go/redo/inbox"
	"github.com/redo-go/redo/outbox"
	"github.com/redo-go/redo/verify/internal/random"
)

// A life is all that happens to the events.
type life struct {
	*random.Life
	queue    inbox.Queue
	settings settings
	events   []*event // in the order in which they are enqueued

	destinations map[string]*destination
	processes    *random.Fleet[*process]
	deaths       atomic.Int32
}

// settings are the options of all relays of a life.
type settings struct {
	holds          bool
	attempts       int // after which an event is dead
	workers        int
	perDestination int
	breaker        int
	drain          time.Duration
}

const (
	relays       = 2
	operations   = 8
	leaseTTL     = 3 * time.Second
	queueTimeout = time.Second
	attemptTime  = 4 * time.Second
)

func newLife(seed uint64, q inbox.Queue) *life {
	l := &life{Life: random.New(seed), queue: q, destinations: map[string]*destination{}}
	l.settings = settings{
		holds: l.Draw(2) == 0, attempts: []int{1, 2, 4}[l.Draw(3)], workers: []int{1, 2, 16}[l.Draw(3)],
		perDestination: 1 + l.Draw(3), breaker: []int{0, 1, 5}[l.Draw(3)],
		drain: []time.Duration{0, 2 * time.Second}[l.Draw(2)],
	}
	l.Faulty = []int{0, 5, 20}[l.Draw(3)]
	l.Log("%+v", l.settings)
	for i := range 3 + l.Draw(6) {
		to := []string{"a", "b"}[l.Draw(2)]
		l.events = append(l.events, &event{life: l, Event: outbox.Event{
			ID: fmt.Sprintf("event-%d", i+1), Destination: to, OrderingKey: []string{"", "x", "x", "y"}[l.Draw(4)],
		}})
		if l.destinations[to] == nil {
			l.destinations[to] = &destination{}
		}
	}
	return l
}

// play lets the events live, and returns the first violation of a rule, or "".
func (l *life) play() (string, error) {
	processes, err := random.NewFleet(l.Life, relays, l.start)
	if err != nil {
		return "", err
	}
	l.processes = processes
	var all, weather sync.WaitGroup
	all.Go(l.produce)
	all.Go(l.operate)
	all.Go(l.operate)
	over := make(chan struct{})
	weather.Go(func() { l.processes.Weather(over, leaseTTL, 15) })
	all.Wait()
	close(over)
	weather.Wait()
	l.Calm.Store(true)
	l.Log("the faults are over")
	time.Sleep(3*leaseTTL + attemptTime) // the last pause ends
	l.settle()
	l.processes.Kill()
	time.Sleep(time.Minute) // calls of stopped processes end
	return l.Violation(), nil
}

// produce enqueues the events in their order.
func (l *life) produce() {
	for _, e := range l.events {
		time.Sleep(l.Span(leaseTTL / 2))
		for !l.enqueue(e) {
			time.Sleep(l.Span(leaseTTL / 2))
		}
	}
}

// settle brings all events to their end, when the faults are over.
func (l *life) settle() {
	for _, e := range l.events {
		e.mu.Lock()
		e.redrives++
		e.mu.Unlock()
	}
	ctx, p := context.Background(), l.processes.At(0)
	left, err := outbox.Stats{}, error(nil)
	for range 20 {
		l.checkNotified()
		for name := range l.destinations {
			if err := p.relay.Enable(ctx, name); err != nil {
				l.Violate("%s can't be enabled: %v", name, err)
			}
		}
		if _, err := outbox.RedriveAll(ctx, l.queue, outbox.Selection{}); err != nil {
			l.Violate("the dead letters can't be redriven: %v", err)
		}
		time.Sleep(time.Minute)
		if left, err = l.queue.Stats(ctx); err == nil && left.Waiting+left.Dead == 0 {
			break
		}
	}
	if err != nil || left.Waiting+left.Dead > 0 {
		l.Violate("the queue is not empty in the end: %+v %v", left, err)
	}
	for _, e := range l.events {
		e.mu.Lock()
		if e.acknowledged == 0 && e.drops == 0 {
			l.Violate("%s is lost", e.ID)
		}
		e.mu.Unlock()
	}
}

// checkNotified checks that an operator knows of each disabled destination.
func (l *life) checkNotified() {
	disabled, err := l.queue.Disabled(context.Background())
	if err != nil {
		l.Violate("the disabled destinations can't be listed: %v", err)
	}
	for _, d := range disabled {
		if l.destinations[d.Destination].notified.Load() == 0 && l.deaths.Load() == 0 {
			l.Violate("%s is disabled, and OnDisabled was not called", d.Destination)
		}
	}
}
