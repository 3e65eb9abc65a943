package main

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/redo-go/redo/internal/wire"
	"github.com/redo-go/redo/outbox"
)

// listedEvent is the JSON form of an event in the output of list and show. An unreadable event has its problem and
// the fields that could be read.
type listedEvent struct {
	ID          string          `json:"id,omitempty"`
	State       string          `json:"state"`
	Destination string          `json:"destination,omitempty"`
	Type        string          `json:"type,omitempty"`
	OrderingKey string          `json:"ordering_key,omitempty"`
	EnqueuedAt  time.Time       `json:"enqueued_at,omitzero"`
	DueAt       time.Time       `json:"due_at,omitzero"`
	DeadAt      time.Time       `json:"dead_at,omitzero"`
	Attempts    int             `json:"attempts"`
	History     []listedFailure `json:"history,omitempty"`
	Header      http.Header     `json:"header,omitempty"`
	PayloadSize int             `json:"payload_size"`
	Payload     []byte          `json:"payload,omitempty"` // base64
	Problem     string          `json:"problem,omitempty"`
}

type listedFailure struct {
	At           time.Time `json:"at"`
	Code         string    `json:"code,omitempty"`
	Status       int       `json:"status,omitempty"`
	Reason       string    `json:"reason,omitempty"`
	Elapsed      float64   `json:"elapsed_seconds"`
	ResponseSize int       `json:"response_size"`
	Response     string    `json:"response,omitempty"`
}

// listed converts the entry. It omits the fields of --body unless that flag is set.
func (e *events) listed(entry outbox.Entry, problem error) listedEvent {
	ev := entry.Event
	l := listedEvent{
		ID: ev.ID, State: stateName(entry.State),
		Destination: e.shown(ev.Destination), Type: ev.Type, OrderingKey: ev.OrderingKey,
		EnqueuedAt: utc(entry.EnqueuedAt), DueAt: utc(entry.DueAt), DeadAt: utc(entry.DeadAt), Attempts: entry.Attempts,
		Header: maskedHeader(ev.Header), PayloadSize: len(ev.Payload),
	}
	for _, f := range entry.History {
		shown := listedFailure{
			At: f.At.UTC(), Code: string(f.Code), Status: f.Status, Reason: f.Reason, Elapsed: f.Elapsed.Seconds(),
			ResponseSize: len(f.Response),
		}
		if e.body {
			shown.Response = f.Response
		}
		l.History = append(l.History, shown)
	}
	if e.body {
		l.Payload = ev.Payload
	}
	if problem != nil {
		l.Problem = problem.Error()
	}
	return l
}

func stateName(s outbox.State) string {
	switch s {
	case outbox.StateWaiting:
		return "waiting"
	case outbox.StateDead:
		return "dead"
	}
	return "unknown"
}

// utc returns t in UTC. It leaves the zero time unchanged.
func utc(t time.Time) time.Time {
	if t.IsZero() {
		return t
	}
	return t.UTC()
}

// shown returns a destination without its query, which may hold a secret.
func (e *events) shown(destination string) string {
	if e.body {
		return destination
	}
	return wire.ShownURL(destination)
}

func (e *events) bodyFlag(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&e.body, "body", false,
		"show payloads, the first bytes of responses, credentials and queries of URLs too")
	cmd.Flags().BoolVar(&e.asJSON, "json", false, "print JSON, payloads as base64")
}

func (e *events) list() *cobra.Command {
	s := &selecting{events: e}
	cmd := &cobra.Command{
		Use:   "list [flags] QUEUE",
		Short: "List dead letters and the events that wait",
		Long: `list shows the dead letters, the one that died first at the front, and then the events that wait, the
oldest first. An event that can't be read is listed with its problem, and the exit code is then 1.`,
		Example: fmt.Sprintf(`  redo %[1]s list orders.redo --state dead
  redo %[1]s list orders.redo --type refund.created --since 24h --json`, e.group),
		Args: usageArgs(cobra.ExactArgs(1)),
		RunE: func(c *cobra.Command, args []string) error {
			sel, err := s.selection(time.Now())
			if err != nil {
				return err
			}
			return e.with(c.Context(), args[0], func(q queue) error {
				all, err := e.read(c, q, sel)
				if err != nil {
					return err
				}
				if e.asJSON {
					err = writeJSON(e.out, all)
				} else {
					err = e.writeList(all)
				}
				if err != nil {
					return err
				}
				return unreadableEvents(all)
			})
		},
	}
	s.flags(cmd.Flags())
	cmd.Flags().StringVar(&s.state, "state", "", "only events in this `state`: waiting or dead")
	complete(cmd, "state", func() []string { return []string{"waiting", "dead"} })
	e.bodyFlag(cmd)
	return cmd
}

// read returns the events that the selection matches, including unreadable ones.
func (e *events) read(c *cobra.Command, q queue, sel outbox.Selection) ([]listedEvent, error) {
	all := []listedEvent{}
	for entry, err := range q.Events(c.Context(), sel) {
		if err != nil && entry.State == 0 {
			return nil, err
		}
		all = append(all, e.listed(entry, err))
	}
	return all, nil
}

func unreadableEvents(all []listedEvent) error {
	n := 0
	for _, l := range all {
		if l.Problem != "" {
			n++
		}
	}
	if n == 0 {
		return nil
	}
	return fmt.Errorf("%d of %d events can't be read", n, len(all))
}

func (e *events) writeList(all []listedEvent) error {
	if len(all) == 0 {
		fmt.Fprintln(e.out, "no event")
		return nil
	}
	var list table
	list.row("ID", "STATE", "AGE", "ATTEMPTS", strings.ToUpper(e.destination), "TYPE", "LAST FAILURE")
	for _, l := range all {
		age, last := "-", l.Problem
		if !l.EnqueuedAt.IsZero() {
			age = since(l.EnqueuedAt).String()
		}
		if last == "" && len(l.History) > 0 {
			last = l.History[len(l.History)-1].title()
		}
		list.row(orDash(l.ID), l.State, age, l.Attempts, orDash(l.Destination), orDash(l.Type), orDash(last))
	}
	return list.write(e.out)
}

func since(t time.Time) time.Duration { return time.Since(t).Round(time.Second) }

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// title returns the failure's code and status.
func (f listedFailure) title() string {
	if f.Status == 0 {
		return f.Code
	}
	return strings.TrimSpace(f.Code + " (status " + strconv.Itoa(f.Status) + ")")
}

// text returns the title and the reason on one line. The reason of a relay often holds the title already.
func (f listedFailure) text() string {
	reason := strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, f.Reason)
	if title := f.title(); !strings.Contains(reason, title) {
		return strings.TrimSpace(title + " " + reason)
	}
	return orDash(strings.TrimPrefix(reason, "redo: "))
}

// maskedHeader returns the header with its credentials masked.
func maskedHeader(h http.Header) http.Header {
	shown := maps.Clone(h)
	for name := range shown {
		if name == "Set-Cookie" || wire.CredentialHeader(name) {
			shown[name] = []string{masked}
		}
	}
	return shown
}

func (e *events) show() *cobra.Command {
	s := &selecting{events: e}
	cmd := &cobra.Command{
		Use:   "show [flags] QUEUE ID",
		Short: "Show an event with the history of its attempts",
		Long: fmt.Sprintf("show prints the event with the id, one for each %s that it waits or is dead for.",
			e.destination),
		Example: fmt.Sprintf(`  redo %[1]s show orders.redo refund-re_1
  redo %[1]s show orders.redo refund-re_1 --body`, e.group),
		Args: usageArgs(cobra.ExactArgs(2)),
		RunE: func(c *cobra.Command, args []string) error {
			s.ID = args[1]
			return e.with(c.Context(), args[0], func(q queue) error {
				all, err := e.read(c, q, s.Selection)
				if err != nil {
					return err
				}
				// An unreadable event without an ID may be a different event.
				all = slices.DeleteFunc(all, func(l listedEvent) bool { return l.ID != s.ID })
				if len(all) == 0 {
					return fmt.Errorf("no event that waits or is dead has the id %q%s", s.ID, e.hashed(s.ID))
				}
				if e.asJSON {
					return writeJSON(e.out, all)
				}
				for i, l := range all {
					if i > 0 {
						fmt.Fprintln(e.out)
					}
					e.writeEvent(l)
				}
				return unreadableEvents(all)
			})
		},
	}
	cmd.Flags().StringVar(&s.Destination, s.destination, "", fmt.Sprintf("only the event for this `%s`", s.destination))
	e.bodyFlag(cmd)
	return cmd
}

// hashed returns the hint for an id that the queue of an inbox keeps as a hash.
func (e *events) hashed(id string) string {
	if e.group != "inbox" || (outbox.Event{ID: id}).Validate() == nil {
		return ""
	}
	return ": the queue keeps such an id as a hash, which redo inbox list shows"
}

// writeEvent writes an event as text for a person.
func (e *events) writeEvent(l listedEvent) {
	d := detail{e.out, 12}
	line := d.line
	instant := func(label string, t time.Time) {
		if !t.IsZero() {
			line(label, t.Format(time.RFC3339))
		}
	}
	line("id", l.ID)
	line("state", l.State)
	line(e.destination, l.Destination)
	line("type", l.Type)
	line("ordering key", l.OrderingKey)
	instant("enqueued", l.EnqueuedAt)
	instant("due", l.DueAt)
	instant("dead", l.DeadAt)
	line("attempts", strconv.Itoa(l.Attempts))
	for _, f := range l.History {
		elapsed := time.Duration(f.Elapsed * float64(time.Second)).Round(time.Millisecond)
		line("failure", fmt.Sprintf("%s after %v: %s", f.At.Format(time.RFC3339), elapsed, f.text()))
		switch {
		case f.Response != "":
			line("", "  "+strconv.Quote(f.Response))
		case f.ResponseSize > 0:
			line("", fmt.Sprintf("  response of %d bytes, shown by --body", f.ResponseSize))
		}
	}
	d.header(l.Header)
	line("problem", l.Problem)
	if !e.body {
		line("payload", fmt.Sprintf("%d bytes, shown by --body", l.PayloadSize))
		return
	}
	d.body(l.Payload)
}
