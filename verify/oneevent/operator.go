package oneevent

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/redo-go/redo/inbox"
	"github.com/redo-go/redo/taxonomy"
)

// operatorTimeout bounds each call of an operator.
const operatorTimeout = 8 * time.Second

// operate lists, redrives and drops events while there are faults.
func (l *life) operate() {
	for range operations {
		time.Sleep(l.Span(2 * leaseTTL))
		p, e := l.processes.Any(), l.events[l.Draw(len(l.events))]
		switch n := l.Draw(10); {
		case n < 5:
			l.redrive(p, e)
		case n < 6:
			_ = l.drop(p, e)
		case n < 8:
			l.letters(p)
		default:
			l.waiting(p)
		}
	}
}

// redrive handles the event again, or puts it back into the queue. It reports whether it has done so.
func (l *life) redrive(p *process, e *event) bool {
	ctx, cancel := context.WithTimeout(context.Background(), operatorTimeout)
	defer cancel()
	e.mu.Lock()
	e.redrives++
	e.ongoing++
	e.rests = time.Time{}
	if l.accepts {
		e.dead = false
	}
	e.mu.Unlock()
	l.Log("%s redrives %s", p.Name, e.id)
	var r *run
	got := l.end(p, e, "", e.look(), func() (inbox.Receipt, error) {
		if l.accepts {
			return inbox.Receipt{Status: inbox.Accepted}, p.acceptor.Redrive(ctx, source, e.id)
		}
		return p.inbox.Redrive(ctx, source, e.id, func(ctx context.Context, ev inbox.Event) error {
			r = &run{p: p, ev: ev, ctx: ctx, redrive: true}
			return p.run(r)
		})
	})
	e.mu.Lock()
	defer e.mu.Unlock()
	e.ongoing--
	if r != nil {
		r.held = false
	}
	if got != nil && got.Dead() && !l.accepts {
		e.dead = true // it stays dead until a redrive has handled it
	}
	return got != nil
}

// drop gives the event up.
func (l *life) drop(p *process, e *event) (err error) {
	e.mu.Lock()
	e.dropping = true
	e.forgets++
	before := len(e.runs)
	e.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), operatorTimeout)
	defer cancel()
	if l.accepts {
		err = p.acceptor.Drop(ctx, source, e.id)
	} else {
		err = p.inbox.Drop(ctx, source, e.id)
	}
	l.Log("%s drops %s: %v", p.Name, e.id, err)
	e.mu.Lock()
	defer e.mu.Unlock()
	if err != nil {
		failed, _ := errors.AsType[*inbox.Error](err)
		switch {
		case errors.Is(err, inbox.ErrNoLetter):
			e.forgets--
		case failed == nil || failed.Code != taxonomy.InFlight && failed.Code != taxonomy.Unavailable:
			l.Violate("Drop of %s: %v", e.id, err)
		}
		return err
	}
	e.dropped = true
	for _, r := range e.runs[:before] {
		if r.busy() {
			l.Violate("%s drops %s, while %s makes attempt %d", p.Name, e.id, r.p.Name, r.ev.Attempt)
		}
	}
	if e.handled && !l.accepts {
		l.Violate("%s was handled, and is dropped", e.id)
	}
	return nil
}

// letters lists the dead letters, and returns their number, or -1 if the list is not complete.
func (l *life) letters(p *process) int {
	ctx, cancel := context.WithTimeout(context.Background(), operatorTimeout)
	defer cancel()
	s := make(map[string]seen, len(l.events))
	for _, e := range l.events {
		s[e.id] = e.look()
	}
	list := p.inbox.DeadLetters
	if l.accepts {
		list = p.acceptor.DeadLetters
	}
	return l.list(p, list(ctx, source), func(e *event) { e.died(s[e.id]) })
}

// waiting is letters for the events that wait.
func (l *life) waiting(p *process) int {
	ctx, cancel := context.WithTimeout(context.Background(), operatorTimeout)
	defer cancel()
	return l.list(p, p.inbox.Waiting(ctx, source), func(*event) {})
}

func (l *life) list(p *process, listed iter.Seq2[inbox.FailedEvent, error], see func(*event)) (n int) {
	for f, err := range listed {
		failed, _ := errors.AsType[*inbox.Error](err)
		switch {
		case failed != nil && failed.Code == taxonomy.Unavailable:
			return -1
		case err != nil:
			l.Violate("a list yields %v", err)
			return -1
		}
		l.Log("%s lists %s: %d attempts, %q", p.Name, f.ID, f.Attempts, f.Failure)
		e := l.event(f.ID)
		e.mu.Lock()
		e.fit(string(f.Payload))
		see(e)
		e.mu.Unlock()
		n++
	}
	return n
}
