package oneevent

import (
	"context"
	"errors"
	"time"

	"github.com/redo-go/redo/inbox"
)

var (
	errFailed = errors.New("the handler failed")
	errLate   = errors.New("a later attempt has begun")
)

// A run is one call of the handler.
type run struct {
	p        *process
	ev       inbox.Event
	redrive  bool
	ctx      context.Context //nolint:containedctx // the end of the context shows that the lease is lost
	ended    time.Time       // when the handler returned
	err      error
	held     bool // it succeeded under its lease, and its delivery has not ended
	redrives int  // of the event, before it began
}

// busy reports whether the run's delivery is under way, and its process works. A process that was stopped may not know
// yet that the lease of a handler which has returned is lost.
func (r *run) busy() bool {
	return r.p.works() && (r.held && !r.p.late() || r.ended.IsZero() && r.ctx.Err() == nil)
}

// handle is the handler of a delivery.
func (p *process) handle(ctx context.Context, ev inbox.Event) error {
	return p.run(&run{p: p, ev: ev, ctx: ctx})
}

func (p *process) run(r *run) (err error) {
	l := p.life
	e := l.event(r.ev.ID)
	e.begin(r)
	err = errKilled // if it panics
	defer func() { e.end(r, err) }()
	p.rest(r.ctx)
	if r.ev.Attempt > 1 && e.made() { // an earlier attempt may have made it
		err = p.endAfter(r)
		return err
	}
	if err = p.endBefore(r); err != nil {
		return err
	}
	err = errKilled
	p.live()
	if !e.apply(r) {
		err = errLate
		return err
	}
	err = p.endAfter(r)
	return err
}

// endBefore ends some handlers without an effect. It returns nil for those that go on.
func (p *process) endBefore(r *run) error {
	l := p.life
	if !l.Chance(60) {
		return nil
	}
	switch l.Draw(6) {
	case 0:
		return inbox.Reject(errFailed)
	case 1:
		l.Log("%s panics", p.Name)
		panic("a handler's error")
	case 2:
		<-r.ctx.Done()
		return r.ctx.Err()
	case 3:
		p.die()
	}
	return errFailed
}

// endAfter ends a handler whose effect is made. An error asks for another attempt, and does not deny the effect.
func (p *process) endAfter(r *run) error {
	l := p.life
	p.rest(r.ctx)
	if !l.Chance(50) {
		return nil
	}
	switch l.Draw(5) {
	case 0:
		p.die()
	case 1:
		l.Log("%s panics", p.Name)
		panic("a handler's error")
	case 2:
		<-r.ctx.Done()
		return r.ctx.Err()
	case 3:
		return errFailed
	}
	return nil
}

// rest lets time pass within a handler.
func (p *process) rest(ctx context.Context) {
	select {
	case <-time.After(p.life.Span(handlerTimeout / 3)):
	case <-ctx.Done():
	}
	p.live()
}
