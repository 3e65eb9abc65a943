package console

import (
	"fmt"
	"net/http"

	"github.com/redo-go/redo/outbox"
)

// An eventsPage lists the events of a queue: dead letters first, then those that wait.
type eventsPage struct {
	window[eventRow]
	Queue, State, To, Type  string
	Destination             string // of the filter
	NextLink, SelectionLink string
	AllLink                 string
	Dead, Waiting           string // links
}

// selected returns the queue that a request names, and shows a failure if there is none.
func (c *Console) selected(w http.ResponseWriter, r *http.Request) (namedQueue, bool) {
	q, ok := c.queue(r.FormValue("queue"))
	if !ok {
		c.fail(w, r, http.StatusNotFound, failure{Text: "There is no queue with this name."})
	}
	return q, ok
}

func (c *Console) events(w http.ResponseWriter, r *http.Request) {
	q, ok := c.selected(w, r)
	if !ok {
		return
	}
	p := eventsPage{Queue: q.name, State: r.FormValue("state"), To: r.FormValue("to"), Type: r.FormValue("type")}
	sel := outbox.Selection{Type: p.Type}
	switch p.State {
	case "dead":
		sel.State = outbox.StateDead
	case "waiting":
		sel.State = outbox.StateWaiting
	default:
		p.State = ""
	}
	p.window = read(q.Events(r.Context(), sel), from(r), func(e outbox.Entry, err error) (eventRow, bool, bool) {
		row := eventRowOf(q.name, e, err)
		if p.To == row.To {
			p.Destination = row.Destination
		}
		return row, p.To == "" || p.To == row.To, endsEvents(e, err)
	})
	at := func(state, from string) string {
		return link("events", "queue", q.name, "state", state, "to", p.To, "type", p.Type, "from", from)
	}
	if p.Next > 0 {
		p.NextLink = at(p.State, fmt.Sprint(p.Next))
	}
	p.AllLink, p.Dead, p.Waiting = at("", ""), at("dead", ""), at("waiting", "")
	p.SelectionLink = link("selection", "queue", q.name, "to", p.To, "type", p.Type)
	c.show(w, r, http.StatusOK, "events", "Events of "+q.name, "events "+q.name, p)
}

// An eventPage shows one event with its history.
type eventPage struct {
	eventRow
	Size     int
	Body     string // the payload, if bodies are shown
	Bodies   bool
	FindLink string
}

func (c *Console) event(w http.ResponseWriter, r *http.Request) {
	q, row, ok := c.entry(w, r)
	if !ok {
		return
	}
	p := eventPage{
		eventRow: row, Size: len(row.Event.Payload), Bodies: c.bodies, FindLink: link("find", "q", row.Event.ID),
	}
	if c.bodies {
		p.Body = string(row.Event.Payload)
	}
	c.show(w, r, http.StatusOK, "event", row.Event.ID, "events "+q.name, p)
}

// entry returns the event that a request names, with its queue. It shows a failure if there is none.
func (c *Console) entry(w http.ResponseWriter, r *http.Request) (q namedQueue, row eventRow, ok bool) {
	if q, ok = c.selected(w, r); !ok {
		return q, row, false
	}
	id, to := r.FormValue("id"), r.FormValue("to")
	if id != "" { // an empty one would select every event
		for e, err := range q.Events(r.Context(), outbox.Selection{ID: id}) {
			if endsEvents(e, err) {
				c.fail(w, r, http.StatusBadGateway, failure{Text: err.Error()})
				return q, row, false
			}
			if row = eventRowOf(q.name, e, err); e.Event.ID == id && row.To == to {
				return q, row, true
			}
		}
	}
	c.fail(w, r, http.StatusNotFound, failure{
		Text: "No event with this id waits or is dead. It was delivered or dropped, or it never existed.",
		Back: link("events", "queue", q.name),
	})
	return q, row, false
}
