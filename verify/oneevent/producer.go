package oneevent

import (
	"context"
	"errors"
	"time"

	"github.com/redo-go/redo/inbox"
	"github.com/redo-go/redo/taxonomy"
)

// patience is the time in which each call of an inbox ends, pauses of its process included.
const patience = time.Minute

// deliver sends the event to a process. It returns nil if the producer gets no acknowledgement.
func (l *life) deliver(e *event, payload string) *inbox.Receipt {
	p, s := l.processes.Any(), e.look()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	ev := inbox.Event{Source: source, ID: e.id, Payload: []byte(payload)}
	if l.accepts {
		ev.OrderingKey = "order"
		return l.end(p, e, payload, s, func() (inbox.Receipt, error) {
			return p.acceptor.Receive(ctx, ev)
		})
	}
	var r *run
	got := l.end(p, e, payload, s, func() (inbox.Receipt, error) {
		receipt, err := p.inbox.Receive(ctx, ev, func(ctx context.Context, ev inbox.Event) error {
			r = &run{p: p, ev: ev, ctx: ctx}
			return p.run(r)
		})
		if failed, ok := errors.AsType[*inbox.Error](err); ok && failed.Err == errFailed { //nolint:errorlint // not joined
			e.rest(r, failed.RetryAfter)
		}
		return receipt, err
	})
	if r != nil {
		e.over(r)
	}
	return got
}

// end makes a call of an inbox and checks its result.
func (l *life) end(
	p *process, e *event, payload string, s seen, call func() (inbox.Receipt, error),
) (got *inbox.Receipt) {
	defer func() {
		if recover() != nil {
			got = nil // the connection breaks off
		}
	}()
	began := time.Now()
	r, err := call()
	if time.Since(began) >= patience {
		l.Violate("%s: a call does not end", e.id)
	}
	if p.Dead.Load() {
		return nil
	}
	l.Log("%s: %s %.30q: %v %v, failure %q, mismatch %v", p.Name, e.id, payload, r.Status, err, r.Failure,
		r.PayloadMismatch)
	if err != nil {
		e.mu.Lock()
		defer e.mu.Unlock()
		failed, _ := errors.AsType[*inbox.Error](err)
		switch {
		case payload == "" && errors.Is(err, inbox.ErrNoLetter):
		case failed == nil:
			l.Violate("%s: the error is %v", e.id, err)
		case failed.Code == taxonomy.PayloadMismatch:
			e.refuse(payload)
		case failed.Code != taxonomy.InFlight && failed.Code != taxonomy.Unavailable && failed.Code != inbox.HandlerFailed:
			l.Violate("%s: the error is %v", e.id, err)
		}
		return nil
	}
	e.receive(r, payload, s)
	return &r
}

// rest records that the event rests after a failure. A redrive ends the rest.
func (e *event) rest(r *run, d time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.ongoing == 0 && e.runs[len(e.runs)-1] == r && e.redrives == r.redrives {
		e.rests = r.ended.Add(d)
	}
}

// produce delivers the events while there are faults. The next one of an order follows an acknowledgement.
func (l *life) produce() {
	for range deliveries {
		time.Sleep(l.Span(leaseTTL))
		i := l.Draw(len(l.events))
		e := l.events[i]
		if !e.sent {
			continue
		}
		if payload := l.payload(e); l.deliver(e, payload) != nil && i+1 < len(l.events) {
			l.events[i+1].sent = true
		}
	}
}

// repeat delivers one event again and again, beside the producer.
func (l *life) repeat() {
	for range deliveries {
		time.Sleep(l.Span(leaseTTL))
		e := l.events[0]
		l.deliver(e, l.payload(e))
	}
}

// payload draws another payload sometimes.
func (l *life) payload(e *event) string {
	if l.Chance(10) {
		return "another payload of " + e.id
	}
	return "payload of " + e.id
}
