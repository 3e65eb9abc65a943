package oneline

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/redo-go/redo"
	"github.com/redo-go/redo/outbox"
	"github.com/redo-go/redo/taxonomy"
)

// A destination gets events. Its mood lasts for a while.
type destination struct {
	mood     atomic.Int32
	notified atomic.Int32
}

// These are the moods of a destination.
const (
	well int32 = iota
	failing
	gone
	unreachable
	moods
)

var (
	errFailed = errors.New("the destination failed")
	errKilled = errors.New("the process is killed")
)

// publish is the publisher of all relays.
func (p *process) publish(ctx context.Context, ev outbox.Event) (err error) {
	p.WaitForResume()
	if p.Dead.Load() {
		return errKilled
	}
	l := p.life
	select {
	case <-p.returned:
		l.Violate("%s delivers %s after Run has returned", p.Name, ev.ID)
	default:
	}
	defer p.enter(ev.Destination)()
	e := l.event(ev.ID)
	d := e.begin(ctx, p, ev)
	err = errFailed // if it panics
	defer func() { e.end(d, err) }()
	p.travel(ctx)
	if err = p.respond(ctx, l.destinations[ev.Destination]); p.Dead.Load() {
		err = errKilled
	}
	return err
}

// enter counts the deliveries to a destination, until the function that it returns is called.
func (p *process) enter(destination string) func() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.running[destination]++
	if n, limit := p.running[destination], p.life.settings.perDestination; n > limit {
		p.life.Violate("%s makes %d deliveries to %s, and may make %d", p.Name, n, destination, limit)
	}
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.running[destination]--
	}
}

// travel lets the time of a delivery pass.
func (p *process) travel(ctx context.Context) {
	select {
	case <-time.After(p.life.Span([]time.Duration{50 * time.Millisecond, 2 * time.Second}[p.life.Draw(2)])):
	case <-ctx.Done():
	}
	p.WaitForResume()
}

// respond draws the destination's response.
func (p *process) respond(ctx context.Context, to *destination) error {
	l := p.life
	mood := to.mood.Load()
	switch {
	case l.Calm.Load() || mood == well && !l.Chance(25):
		return ctx.Err()
	case mood == gone:
		return outbox.Gone(errors.New("no such endpoint"))
	case mood == unreachable:
		return outbox.NotSent(errors.New("no connection"))
	}
	switch l.Draw(8) {
	case 0:
		return outbox.Reject(errFailed)
	case 1:
		l.Log("%s panics", p.Name)
		panic("a publisher's error")
	case 2:
		<-ctx.Done()
		p.WaitForResume()
		return fmt.Errorf("no response: %w", ctx.Err())
	case 3:
		p.Kill()
		return errKilled
	case 4:
		return errors.Join(errFailed, &redo.Error{
			Code: taxonomy.RateLimited, StatusCode: http.StatusTooManyRequests, RetryAt: time.Now().Add(2 * time.Second),
		})
	}
	return errFailed
}
