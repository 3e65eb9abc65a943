package inbox

import (
	"context"
	"errors"
	"iter"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/redo-go/redo/outbox"
	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/taxonomy"
)

// Headers of an event in the queue.
const (
	headerID       = "Redo-Inbox-Id"       // the producer's id, escaped
	headerReceived = "Redo-Inbox-Received" // when the event was accepted, by that process's clock
)

// derivedID starts the ids that are made of a producer's id.
const derivedID = "inbox-sha256-"

// QueueID returns the id under which the queue of [Accept] keeps the event that its producer names id. It is that id,
// or a hash of it if the queue takes no such id.
func QueueID(id string) string {
	if (outbox.Event{ID: id}).Validate() != nil || strings.HasPrefix(id, derivedID) {
		return derivedID + DeriveID([]byte(id))
	}
	return id
}

// queued returns the event as it is kept in the queue.
func queued(ev Event, received time.Time) outbox.Event {
	return outbox.Event{
		ID: QueueID(ev.ID), Destination: ev.Source, OrderingKey: ev.OrderingKey, Payload: ev.Payload,
		Header: http.Header{
			headerID:       {url.QueryEscape(ev.ID)},
			headerReceived: {received.UTC().Format(time.RFC3339Nano)},
		},
	}
}

// accepted returns the event that queued has kept, and when it was accepted.
func accepted(out outbox.Event) (Event, time.Time, error) {
	id, err := url.QueryUnescape(out.Header.Get(headerID))
	received, unparsed := time.Parse(time.RFC3339Nano, out.Header.Get(headerReceived))
	ev := Event{Source: out.Destination, ID: id, OrderingKey: out.OrderingKey, Payload: out.Payload}
	if err != nil || unparsed != nil || id == "" {
		ev.ID = out.ID
		return ev, time.Time{}, ev.fail(Unreadable, errForeign)
	}
	return ev, received.UTC(), nil
}

var errForeign = errors.New("the queue's event was not enqueued by Accept")

// failed returns the event of a queue's entry.
func (a *Acceptor) failed(e outbox.Entry) (FailedEvent, error) {
	ev, received, err := accepted(e.Event)
	f := FailedEvent{Source: ev.Source, ID: ev.ID}
	if err != nil {
		return f, err
	}
	if f.PayloadHash, err = a.in.fingerprint(ev); err != nil {
		return f, ev.fail(Unreadable, err)
	}
	last := e.Failure()
	f.Payload, f.ReceivedAt, f.FailedAt, f.DueAt = append([]byte{}, ev.Payload...), received, e.DeadAt, e.DueAt
	f.Attempts, f.Failure, f.Unknown = e.Attempts, last.Reason, last.Code == effectUnknown
	return f, nil
}

// DeadLetters is [Inbox.DeadLetters], for the queue's dead letters. Attempts counts those since the last redrive.
func (a *Acceptor) DeadLetters(ctx context.Context, source string) iter.Seq2[FailedEvent, error] {
	return func(yield func(FailedEvent, error) bool) {
		for e, err := range a.queue.Events(ctx, outbox.Selection{State: outbox.StateDead, Destination: source}) {
			var f FailedEvent
			switch {
			case err == nil:
				f, err = a.failed(e)
			case e.Event.ID == "":
				err = &Error{Code: taxonomy.Unavailable, Err: err}
			default:
				f = FailedEvent{Source: e.Event.Destination, ID: e.Event.ID}
				err = Event{Source: f.Source, ID: f.ID}.fail(Unreadable, err)
			}
			if !yield(f, err) {
				return
			}
		}
	}
}

// Redrive puts a dead letter back into the queue, under its own source and id. Run then handles it. A letter that is
// Unknown becomes a dead letter again, and is not handled. The error matches ErrNoLetter if there is no such letter.
func (a *Acceptor) Redrive(ctx context.Context, source, id string) error {
	return letterError(Event{Source: source, ID: id}, a.queue.Redrive(ctx, QueueID(id), source))
}

// Drop gives up a dead letter. Further deliveries of its event are acknowledged and not handled, for the retention.
// The error matches ErrNoLetter if there is no such letter. After any other error call Drop again.
func (a *Acceptor) Drop(ctx context.Context, source, id string) error {
	ev := Event{Source: source, ID: id}
	selected := outbox.Selection{State: outbox.StateDead, ID: QueueID(id), Destination: source}
	for e, err := range a.queue.Events(ctx, selected) {
		if err != nil {
			return letterError(ev, err)
		}
		f, err := a.failed(e)
		if err == nil {
			err = a.giveUp(ctx, ev, f)
		}
		if err != nil {
			return err
		}
		return letterError(ev, a.queue.Drop(ctx, QueueID(id), source))
	}
	return noLetter(ev)
}

// giveUp settles the event as failed, unless it is settled.
func (a *Acceptor) giveUp(ctx context.Context, ev Event, f FailedEvent) error {
	ctx, done := a.in.storeContext(ctx)
	defer done()
	n := note{Attempts: f.Attempts, Received: f.ReceivedAt, Changed: f.FailedAt, Err: f.Failure}
	if n.Err == "" {
		n.Err = errNoEnd
	}
	g, err := a.in.st.Reserve(ctx, store.Claim{
		ID: ev.id(), Fingerprint: f.PayloadHash, Lease: a.in.config.lease, Retention: a.in.retention, Meta: n.encode(),
	})
	switch {
	case err == nil && g.Verdict.Owned():
		err = a.in.st.Complete(ctx, g.Lease, a.in.outcome(true, n))
	case err == nil && g.Verdict == store.InFlight:
		err = ev.fail(taxonomy.InFlight, nil).after(f.Attempts)
	}
	if err != nil {
		return ev.failStore(f.Attempts, err)
	}
	return nil
}

// letterError returns an error of the queue as one of this package.
func letterError(ev Event, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, outbox.ErrNoLetter):
		return noLetter(ev)
	default:
		return ev.fail(taxonomy.Unavailable, err)
	}
}
