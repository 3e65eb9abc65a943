package console

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/redo-go/redo/internal/wire"
	"github.com/redo-go/redo/outbox"
	"github.com/redo-go/redo/taxonomy"
)

const (
	defaultRate  = 10               // letters in a second
	maxRate      = 1000             // letters in a second
	redriveLimit = 20 * time.Second // of one request. The operator then continues.
)

func (c *Console) redrive(w http.ResponseWriter, r *http.Request) {
	q, row, ok := c.entry(w, r)
	if !ok {
		return
	}
	err := q.Redrive(r.Context(), row.Event.ID, row.Event.Destination)
	a := Act{Action: "redrive", Queue: q.name, Event: row.Event.ID, Destination: row.Destination, Err: err}
	if err == nil {
		a.Redriven = 1
	}
	c.report(r, a)
	if err != nil {
		c.fail(w, r, http.StatusConflict, failure{Text: err.Error(), Back: row.Link})
		return
	}
	redirect(w, row.Link+"&done=redrive")
}

// A selectionPage is the dry run of a redrive, or the report of one.
type selectionPage struct {
	Queue, To, Type, Until string
	Destination            string // of the filter
	Matched                int
	More                   bool // there are more than were counted
	Groups                 []group
	Rate                   int
	Ran                    bool // letters were redriven
	Redriven, Vanished     int
	Unreadable             int
	Back                   string

	destination string // unmasked
}

// A group is the dead letters of one destination with one cause.
type group struct {
	Destination string
	Code        taxonomy.Code
	Count       int
}

// dryRun counts the dead letters that a request selects, and changes nothing. It examines at most maxScan of them.
func (c *Console) dryRun(r *http.Request, q namedQueue) (p selectionPage, sel outbox.Selection, err error) {
	p = selectionPage{Queue: q.name, To: r.FormValue("to"), Type: r.FormValue("type"), Rate: defaultRate}
	sel = outbox.Selection{State: outbox.StateDead, Type: p.Type, Until: time.Now()}
	if until, err := time.Parse(time.RFC3339Nano, r.FormValue("until")); err == nil {
		sel.Until = until
	}
	p.Until = sel.Until.UTC().Format(time.RFC3339Nano)
	p.Back = link("events", "queue", q.name, "state", "dead", "to", p.To, "type", p.Type)
	counts, examined := map[group]int{}, 0
	for e, err := range q.Events(r.Context(), sel) {
		if endsEvents(e, err) {
			return p, sel, err
		}
		if examined == maxScan {
			p.More = true
			break
		}
		examined++
		switch to := destinationID(e.Event.Destination); {
		case err != nil:
			p.Unreadable++
			continue
		case p.To == to:
			p.Destination, p.destination = wire.ShownURL(e.Event.Destination), e.Event.Destination
		case p.To != "":
			continue
		}
		p.Matched++
		counts[group{Destination: wire.ShownURL(e.Event.Destination), Code: e.Failure().Code}]++
	}
	for _, g := range slices.SortedFunc(maps.Keys(counts), func(a, b group) int {
		return cmp.Or(
			cmp.Compare(counts[b], counts[a]), cmp.Compare(a.Destination, b.Destination), cmp.Compare(a.Code, b.Code))
	}) {
		g.Count = counts[g]
		p.Groups = append(p.Groups, g)
	}
	return p, sel, nil
}

func (c *Console) preview(w http.ResponseWriter, r *http.Request) {
	q, ok := c.selected(w, r)
	if !ok {
		return
	}
	p, _, err := c.dryRun(r, q)
	if err != nil {
		c.fail(w, r, http.StatusBadGateway, failure{Text: err.Error(), Back: p.Back})
		return
	}
	c.show(w, r, http.StatusOK, "selection", "Redrive dead letters", "events "+q.name, p)
}

// redriveSelection redrives for at most redriveLimit, or until the browser disconnects.
func (c *Console) redriveSelection(w http.ResponseWriter, r *http.Request) {
	q, ok := c.selected(w, r)
	if !ok {
		return
	}
	rate, err := strconv.Atoi(r.PostFormValue("rate"))
	if err != nil || rate < 1 || rate > maxRate {
		c.fail(w, r, http.StatusUnprocessableEntity, failure{
			Text: fmt.Sprintf("Nothing was redriven: the rate must be a whole number from 1 to %d.", maxRate),
		})
		return
	}
	p, sel, err := c.dryRun(r, q)
	if err != nil || p.Matched == 0 {
		text := "Nothing was redriven: no dead letter is selected."
		if err != nil {
			text = err.Error()
		}
		c.fail(w, r, http.StatusConflict, failure{Text: text, Back: p.Back})
		return
	}
	if p.To != "" && p.destination == "" { // an empty Selection.Destination selects all of them
		c.fail(w, r, http.StatusUnprocessableEntity, failure{
			Text: "Nothing was redriven: events without a destination can't be selected. Redrive them one by one.",
			Back: p.Back,
		})
		return
	}
	sel.Destination = p.destination
	ctx, cancel := context.WithTimeout(r.Context(), redriveLimit)
	defer cancel()
	done, err := outbox.RedriveAll(ctx, q, sel, outbox.PerSecond(float64(rate)))
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() != nil {
		err = nil // the page offers to continue
	}
	c.report(r, Act{
		Action: "redrive selection", Queue: q.name, Destination: p.Destination, Type: p.Type,
		Redriven: done.Redriven, Err: err,
	})
	if err != nil {
		c.fail(w, r, http.StatusBadGateway, failure{
			Text: fmt.Sprintf("%d letters were redriven, then: %v", done.Redriven, err), Back: p.Back,
		})
		return
	}
	left, _, err := c.dryRun(r, q)
	if err != nil {
		c.fail(w, r, http.StatusBadGateway, failure{Text: err.Error(), Back: p.Back})
		return
	}
	left.Ran, left.Redriven, left.Vanished, left.Rate = true, done.Redriven, done.Vanished, rate
	left.Destination = p.Destination
	c.show(w, r, http.StatusOK, "selection", "Redrive dead letters", "events "+q.name, left)
}

func (c *Console) enable(w http.ResponseWriter, r *http.Request) {
	q, ok := c.selected(w, r)
	if !ok {
		return
	}
	disabled, err := q.Disabled(r.Context())
	if err != nil {
		c.fail(w, r, http.StatusBadGateway, failure{Text: err.Error()})
		return
	}
	at := slices.IndexFunc(disabled, func(d outbox.DisabledDestination) bool {
		return destinationID(d.Destination) == r.PostFormValue("to")
	})
	if at < 0 {
		c.fail(w, r, http.StatusNotFound, failure{Text: "The destination is not disabled."})
		return
	}
	err = q.Enable(r.Context(), disabled[at].Destination)
	c.report(r, Act{Action: "enable", Queue: q.name, Destination: wire.ShownURL(disabled[at].Destination), Err: err})
	if err != nil {
		c.fail(w, r, http.StatusBadGateway, failure{Text: err.Error()})
		return
	}
	redirect(w, "./?done=enable")
}
