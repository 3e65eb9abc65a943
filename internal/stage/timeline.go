package stage

import (
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"sync"
	"time"
)

// A Style is a terminal's colour or weight.
type Style string

// The styles of terminals.
const (
	Bold    Style = "1"
	Dim     Style = "2"
	Red     Style = "31"
	Green   Style = "32"
	Yellow  Style = "33"
	Blue    Style = "34"
	Magenta Style = "35"
	Cyan    Style = "36"
)

// A Timeline prints the reports of all parts in the order of their time. It is safe for concurrent use.
type Timeline struct {
	out      io.Writer
	colour   bool
	actors   map[string]Style
	width    int // of an actor's name
	mu       sync.Mutex
	began    time.Time
	messages []message
}

// NewTimeline returns a timeline of the actors. It uses colours on a terminal, unless NO_COLOR is set (no-color.org).
func NewTimeline(out io.Writer, actors map[string]Style) *Timeline {
	t := &Timeline{out: out, colour: isTerminal(out), actors: actors, began: time.Now()}
	for name := range maps.Keys(actors) {
		t.width = max(t.width, len(name))
	}
	return t
}

func isTerminal(out io.Writer) bool {
	f, ok := out.(*os.File)
	if !ok || os.Getenv("NO_COLOR") != "" || os.Getenv("TERM") == "dumb" {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// Paint returns the text in a style. Without colours, or with an empty style, it returns the text.
func (t *Timeline) Paint(style Style, text string) string {
	if !t.colour || style == "" {
		return text
	}
	return "\x1b[" + string(style) + "m" + text + "\x1b[0m"
}

// Title prints a scene's title, and starts its clock.
func (t *Timeline) Title(n int, text string) {
	fmt.Fprintf(t.out, "\n%s\n", t.Paint(Bold, fmt.Sprintf("%d. %s", n, text)))
	t.mu.Lock()
	defer t.mu.Unlock()
	t.began = time.Now()
}

// Note adds a line of the parent's own.
func (t *Timeline) Note(text string) { t.add(message{At: time.Now(), Text: text}) }

func (t *Timeline) add(m message) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.messages = append(t.messages, m)
}

// Flush prints the messages since the last Flush.
func (t *Timeline) Flush() {
	t.mu.Lock()
	defer t.mu.Unlock()
	slices.SortStableFunc(t.messages, func(a, b message) int { return a.At.Compare(b.At) })
	for _, l := range fold(t.messages) {
		text := l.Text
		switch {
		case l.Good:
			text = t.Paint(Green, text)
		case l.Actor == "":
			text = t.Paint(Red, text)
		}
		if l.times > 1 {
			text += fmt.Sprintf(" (%d times)", l.times)
		}
		at := fmt.Sprintf("%5d ms", max(0, l.At.Sub(t.began)).Milliseconds())
		actor := fmt.Sprintf("%-*s", t.width, l.Actor)
		fmt.Fprintf(t.out, "  %s  %s  %s\n", t.Paint(Dim, at), t.Paint(t.actors[l.Actor], actor), text)
	}
	t.messages = nil
}

// A line is a message, and how often its process reported it at about the same time.
type line struct {
	message
	times int
}

// fold makes one line of equal messages of a process within 200 ms.
func fold(messages []message) []line {
	var lines []line
	for _, m := range messages {
		i := slices.IndexFunc(lines, func(l line) bool {
			return l.pid == m.pid && l.Text == m.Text && m.At.Sub(l.At) < 200*time.Millisecond
		})
		if i < 0 {
			lines = append(lines, line{m, 1})
			continue
		}
		lines[i].times++
	}
	return lines
}
