package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"time"
)

// A timeline prints what the processes say, scene by scene, in the order in which it happened.
type timeline struct {
	out    io.Writer
	colour bool
	mu     sync.Mutex
	began  time.Time
	events []event
}

func newTimeline(out io.Writer) *timeline {
	return &timeline{out: out, colour: isTerminal(out), began: time.Now()}
}

// isTerminal reports whether out is a terminal whose user has not asked for plain text (no-color.org).
func isTerminal(out io.Writer) bool {
	f, ok := out.(*os.File)
	if !ok || os.Getenv("NO_COLOR") != "" || os.Getenv("TERM") == "dumb" {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

const (
	bold   = "1"
	dim    = "2"
	red    = "31"
	green  = "32"
	yellow = "33"
	cyan   = "36"
)

func (t *timeline) paint(style, text string) string {
	if !t.colour || style == "" {
		return text
	}
	return "\x1b[" + style + "m" + text + "\x1b[0m"
}

func (t *timeline) title(n int, text string) {
	fmt.Fprintf(t.out, "\n%s\n", t.paint(bold, fmt.Sprintf("%d. %s", n, text)))
	t.mu.Lock()
	defer t.mu.Unlock()
	t.began = time.Now()
}

func (t *timeline) add(e event) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.events = append(t.events, e)
}

func (t *timeline) note(text string) { t.add(event{At: time.Now(), Text: text}) }

func (t *timeline) flush() {
	t.mu.Lock()
	defer t.mu.Unlock()
	slices.SortStableFunc(t.events, func(a, b event) int { return a.At.Compare(b.At) })
	for _, s := range together(t.events) {
		e := s.event
		style := map[string]string{"client": cyan, "service": yellow, "": red}[e.Actor]
		text := e.Text
		if e.Good {
			text = t.paint(green, text)
		} else if e.Actor == "" {
			text = t.paint(red, text)
		}
		if s.times > 1 {
			text += fmt.Sprintf(" (%d times)", s.times)
		}
		at := max(0, e.At.Sub(t.began)).Milliseconds()
		fmt.Fprintf(t.out, "  %s  %s  %s\n", t.paint(dim, fmt.Sprintf("%5d ms", at)), t.paint(style, fmt.Sprintf("%-7s", e.Actor)), text)
	}
	t.events = nil
}

// said is an event, and how many times it was said at about the same time.
type said struct {
	event
	times int
}

// together folds what ten callers say in one breath into one line.
func together(events []event) []said {
	const breath = 200 * time.Millisecond
	var lines []said
	for _, e := range events {
		i := slices.IndexFunc(lines, func(s said) bool {
			return s.PID == e.PID && s.Text == e.Text && e.At.Sub(s.At) < breath
		})
		if i < 0 {
			lines = append(lines, said{e, 1})
			continue
		}
		lines[i].times++
	}
	return lines
}

// verdict prints the service's ledger and what it comes to.
func (t *timeline) verdict(c tally, entries []Entry) error {
	fmt.Fprintf(t.out, "\n%s\n", t.paint(bold, "The service's ledger"))
	for _, e := range entries {
		fmt.Fprintf(t.out, "  %2d  %-6s %-8s %8s  %s\n", e.Number, e.ID, e.Kind, cents(e.Amount), e.Reference)
	}
	style := green
	if !c.ok() {
		style = red
	}
	fmt.Fprintf(t.out, "\n%s\n", t.paint(style, c.String()))
	if !c.ok() {
		return errors.New("the ledger does not hold each operation once")
	}
	return nil
}
