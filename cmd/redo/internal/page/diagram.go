package page

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/redo-go/redo/conformance"
)

// diagram holds the messages on the wire in the order of time. The client is at the left, the target at the right,
// and between them the proxy where there was one. A request in progress is a bar at the target; requests that run at
// the same time have bars side by side.
type diagram struct {
	Proxied bool
	Rows    []row
	Left    int // exchanges that are not drawn
}

// A row is one event, or a while in which there was none.
type row struct {
	Kind   string // send, response, broken or gap
	Span   string // full; near: client to proxy; far: proxy to target
	Time   string
	Number int // the exchange's
	Label  string
	Line   string // request or status line
	Note   string
	Bars   []string // each bar's classes
}

const (
	maxDrawn = 60        // exchanges; a diagram is for reading
	maxBars  = 12        // side by side; the last is shared by all above
	longGap  = 400 * 1e3 // microseconds without an event that get a row
)

// These are the words of the cases about the proxy that loses responses. A test compares them.
const (
	byProxy    = "by a proxy"
	targetSide = "the same exchange, as the proxy read it"
)

func spanOf(x *conformance.Exchange) string {
	switch {
	case strings.HasPrefix(x.Delivery, byProxy):
		return "near"
	case x.Delivery == targetSide:
		return "far"
	}
	return "full"
}

// An event is the beginning or the end of an exchange.
type event struct {
	at    int64
	index int
	ends  bool
}

func newDiagram(exchanges []*conformance.Exchange) *diagram {
	d := &diagram{Left: max(0, len(exchanges)-maxDrawn)}
	drawn := exchanges[:len(exchanges)-d.Left]
	var events []event
	for i, x := range drawn {
		sent := x.SentMicros
		if i > 0 && spanOf(x) == "far" {
			// The proxy may take the connection before the client has looked at its clock.
			sent = max(sent, drawn[i-1].SentMicros)
		}
		events = append(events, event{sent, i, false}, event{max(sent, x.DoneMicros), i, true})
		d.Proxied = d.Proxied || spanOf(x) != "full"
	}
	slices.SortStableFunc(events, func(a, b event) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.index, b.index))
	})
	bars := newBars(events, drawn)
	for i, e := range events {
		if i > 0 && e.at-events[i-1].at >= longGap {
			d.Rows = append(d.Rows, row{Kind: "gap", Span: "full", Label: duration(e.at-events[i-1].at) + " later",
				Bars: bars.between(i)})
		}
		r := newRow(e, drawn[e.index])
		r.Bars = bars.at(i)
		d.Rows = append(d.Rows, r)
	}
	return d
}

func newRow(e event, x *conformance.Exchange) row {
	r := row{Kind: "send", Span: spanOf(x), Time: duration(e.at), Number: e.index + 1, Label: x.Label}
	if !e.ends {
		r.Line = x.Method + " " + excerpt(x.Path, 80)
		if r.Span != "far" { // the proxy passes the response on
			r.Note = keyNote(x.RequestHeader)
			if x.RequestBody != "" {
				r.Note = strings.TrimPrefix(r.Note+" · ", " · ") + excerpt(x.RequestBody, 60)
			}
		}
		if x.Delivery != "" && r.Span == "full" {
			r.Label += " (" + x.Delivery + ")"
		}
		return r
	}
	r.Kind, r.Label = "response", ""
	if x.Status != 0 {
		r.Line = status(x.Status)
		for _, code := range slices.Backward(x.Interim) {
			r.Line = fmt.Sprintf("%d, then %s", code, r.Line)
		}
	}
	r.Note = excerpt(x.ResponseBody, 60)
	if replayed(x.ResponseHeader) {
		r.Label = "replayed"
	}
	if x.Error != "" {
		r.Kind = "broken"
		r.Label = excerpt(x.Error, 160)
	}
	return r
}

// keyNote is the key, by which the exchanges of one operation are known.
func keyNote(header []string) string {
	for _, line := range header {
		if name, value, _ := strings.Cut(line, ":"); strings.Contains(strings.ToLower(name), "idempotency") {
			return "key " + excerpt(value, 40)
		}
	}
	return ""
}

// replayed reports whether a response is marked as a replay, in the way of most servers.
func replayed(header []string) bool {
	return slices.ContainsFunc(header, func(line string) bool {
		line = strings.ToLower(line)
		return line == "idempotent-replayed: true" || line == "idempotency-status: replayed"
	})
}

// bars are the requests in progress at the target, event by event.
type bars struct {
	rows  [][]string
	width int
}

// newBars gives each exchange that the target sees the first bar that is free.
func newBars(events []event, exchanges []*conformance.Exchange) *bars {
	b := &bars{width: 1}
	var running []int // by bar, how many exchanges
	place := map[int]int{}
	for _, e := range events {
		cells := make([]string, len(running), len(running)+1)
		for i, n := range running {
			if n > 0 {
				cells[i] = "on"
			}
		}
		if spanOf(exchanges[e.index]) == "near" {
			b.rows = append(b.rows, cells)
			continue
		}
		p, word := place[e.index], "ends"
		if !e.ends {
			word = "begins"
			if p = slices.Index(running, 0); p < 0 {
				p = min(len(running), maxBars-1)
			}
			if p == len(running) {
				running, cells = append(running, 0), append(cells, "")
			}
			place[e.index] = p
			running[p]++
		} else {
			running[p]--
		}
		if !e.ends && running[p] == 1 || e.ends && running[p] == 0 {
			cells[p] = word
		}
		for i := range p {
			cells[i] = strings.TrimPrefix(cells[i]+" crossed", " ")
		}
		b.rows = append(b.rows, cells)
		b.width = max(b.width, len(running))
	}
	for i, cells := range b.rows {
		b.rows[i] = append(cells, make([]string, b.width-len(cells))...)
	}
	return b
}

func (b *bars) at(i int) []string { return b.rows[i] }

// between returns the bars in the while before event i.
func (b *bars) between(i int) []string {
	cells := make([]string, b.width)
	for k, c := range b.rows[i] {
		if strings.HasPrefix(c, "on") || strings.HasPrefix(c, "ends") {
			cells[k] = "on"
		}
	}
	return cells
}
