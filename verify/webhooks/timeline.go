package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
)

// A timeline prints what the processes say, scene by scene, in the order in which it happened.
type timeline struct {
	out    io.Writer
	colour bool
	mu     sync.Mutex
	began  time.Time
	words  []word
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

// Colours and weights, as terminals have them.
const (
	bold    = "1"
	dim     = "2"
	red     = "31"
	green   = "32"
	yellow  = "33"
	blue    = "34"
	magenta = "35"
	cyan    = "36"
)

var styles = map[string]string{"client": cyan, "producer": yellow, "relay": blue, "consumer": magenta, "": red}

func (t *timeline) paint(style, text string) string {
	if !t.colour {
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

func (t *timeline) add(w word) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.words = append(t.words, w)
}

func (t *timeline) note(text string) { t.add(word{At: time.Now(), Text: text}) }

// flush prints what was said since the last time.
func (t *timeline) flush() {
	t.mu.Lock()
	defer t.mu.Unlock()
	slices.SortStableFunc(t.words, func(a, b word) int { return a.At.Compare(b.At) })
	for _, w := range t.words {
		text := w.Text
		if w.Good {
			text = t.paint(green, text)
		} else if w.Actor == "" {
			text = t.paint(red, text)
		}
		at := max(0, w.At.Sub(t.began)).Milliseconds()
		fmt.Fprintf(t.out, "  %s  %s  %s\n", t.paint(dim, fmt.Sprintf("%5d ms", at)), t.paint(styles[w.Actor], fmt.Sprintf("%-8s", w.Actor)), text)
	}
	t.words = nil
}

// ledgers prints both.
func (t *timeline) ledgers(c tally) {
	for i, owner := range []string{"producer", "consumer"} {
		fmt.Fprintf(t.out, "\n%s\n", t.paint(bold, "The "+owner+"'s ledger"))
		for _, e := range c.entries[i] {
			fmt.Fprintf(t.out, "  %2d  %-10s %8s  %s\n", e.Number, e.ID, cents(e.Amount), e.Reference)
		}
	}
}

// verdict prints what the ledgers come to.
func (t *timeline) verdict(c tally) error {
	style := green
	if !c.ok() {
		style = red
	}
	fmt.Fprintf(t.out, "\n%s\n", t.paint(style, c.String()))
	if !c.ok() {
		return errors.New("the ledgers do not hold each operation once: " + strings.Join(c.strays, "; "))
	}
	return nil
}
