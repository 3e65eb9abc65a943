package script

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redo-go/redo/servertest"
)

// A word is one fault of the language.
type word struct {
	name string
	args string // as they are written, for the help
	does string
	make func(args []string) (servertest.Fault, error)
}

var words = []word{
	{"ok", "", "serve the request", plain(servertest.OK)},
	{"status", "CODE", "respond with the status before the effect; a bare number is the same",
		number(servertest.Status)},
	{"status-after-effect", "CODE", "respond with the status after the effect", number(servertest.StatusAfterEffect)},
	{"html-error", "CODE", "respond with HTML whose Content-Type is JSON", number(servertest.HTMLError)},
	{"redirect", "CODE,URL", "respond with a redirect", redirect},
	{"in-flight", "DURATION", "respond that the first request is still running; Retry-After is the duration",
		duration(servertest.InFlight)},
	{"rate-limited", "SECONDS", "respond 429 with this Retry-After", number(func(n int) servertest.Fault {
		return servertest.RateLimited(servertest.RetryAfterSeconds(int64(n)))
	})},
	{"reset-before-read", "", "reset the connection before the body is read", plain(servertest.ResetBeforeRead)},
	{"reset-after-effect", "", "reset the connection after the effect", plain(servertest.ResetAfterEffect)},
	{"close-after-effect", "", "close the connection after the effect, without a response",
		plain(servertest.CloseAfterEffect)},
	{"stale-keep-alive", "", "serve the request; the next one on its connection dies",
		plain(servertest.StaleKeepAlive)},
	{"delay", "DURATION", "hold the request before the effect", duration(servertest.Delay)},
	{"delay-in-handler", "DURATION", "hold the request while its key is in flight",
		duration(servertest.DelayInHandler)},
	{"delay-after-effect", "DURATION", "hold the response back after the effect",
		duration(servertest.DelayAfterEffect)},
	{"slow-headers", "DURATION", "send the status line, and the rest so much later", duration(servertest.SlowHeaders)},
	{"slow-body", "DURATION", "send the body in four parts, so long apart", duration(servertest.SlowBody)},
	{"truncated-body", "BYTES", "send so much of the body, and close", number(servertest.TruncatedBody)},
	{"duplicate", "", "deliver the request twice, one after the other", plain(servertest.Duplicate)},
	{"duplicate-at-once", "", "deliver the request twice at the same time", plain(servertest.DuplicateAtOnce)},
	{"store-fails-at-reserve", "", "the store is down before the effect", plain(servertest.StoreFailsAtReserve)},
	{"store-fails-at-complete", "", "the store is down after the effect", plain(servertest.StoreFailsAtComplete)},
}

// Language is the set of faults that a program offers. The zero value has all faults.
type Language struct {
	NoStore string // the reason why the program has no faults of the store; empty if it has them
}

// Fault reads one fault, such as 503, ok or delay(2s). Package servertest checks the arguments.
func (l Language) Fault(text string) (servertest.Fault, error) {
	if status, err := strconv.Atoi(text); err == nil {
		return servertest.Status(status), nil
	}
	name, rest, open := strings.Cut(text, "(")
	i := slices.IndexFunc(words, func(w word) bool { return w.name == strings.TrimSpace(name) })
	if i < 0 {
		return servertest.Fault{}, fmt.Errorf("there is no fault %q, there are %s", name, strings.Join(l.Names(), ", "))
	}
	w := words[i]
	if !l.has(w) {
		return servertest.Fault{}, errors.New(l.NoStore)
	}
	var args []string
	if open {
		inner, closed := strings.CutSuffix(rest, ")")
		if !closed {
			return servertest.Fault{}, fmt.Errorf("%q has no closing parenthesis", text)
		}
		for arg := range strings.SplitSeq(inner, ",") {
			args = append(args, strings.TrimSpace(arg))
		}
	}
	wants := 0
	if w.args != "" {
		wants = strings.Count(w.args, ",") + 1
	}
	if len(args) != wants {
		return servertest.Fault{}, fmt.Errorf("%q: it is written %s", text, w)
	}
	f, err := w.make(args)
	if err != nil {
		return servertest.Fault{}, fmt.Errorf("%q: it is written %s: %w", text, w, err)
	}
	return f, nil
}

// String returns the word as it is written.
func (w word) String() string {
	if w.args == "" {
		return w.name
	}
	return w.name + "(" + w.args + ")"
}

// has reports whether the program offers the fault.
func (l Language) has(w word) bool {
	return l.NoStore == "" || !strings.HasPrefix(w.name, "store-fails-")
}

func (l Language) words() []word {
	return slices.DeleteFunc(slices.Clone(words), func(w word) bool { return !l.has(w) })
}

// Names returns the names of the faults.
func (l Language) Names() []string {
	var names []string
	for _, w := range l.words() {
		names = append(names, w.name)
	}
	return names
}

// Help lists the faults, one on each line.
func (l Language) Help() string {
	offered := l.words()
	width := 0
	for _, w := range offered {
		width = max(width, len(w.String()))
	}
	var b strings.Builder
	for _, w := range offered {
		fmt.Fprintf(&b, "  %-*s  %s\n", width, w, w.does)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

func plain(f func() servertest.Fault) func([]string) (servertest.Fault, error) {
	return func([]string) (servertest.Fault, error) { return f(), nil }
}

func number(f func(int) servertest.Fault) func([]string) (servertest.Fault, error) {
	return func(args []string) (servertest.Fault, error) {
		n, err := strconv.Atoi(args[0])
		if err != nil {
			return servertest.Fault{}, fmt.Errorf("%q is no whole number", args[0])
		}
		return f(n), nil
	}
}

func duration(f func(time.Duration) servertest.Fault) func([]string) (servertest.Fault, error) {
	return func(args []string) (servertest.Fault, error) {
		d, err := time.ParseDuration(args[0])
		if err != nil {
			return servertest.Fault{}, fmt.Errorf("%q is no duration such as 300ms", args[0])
		}
		return f(d), nil
	}
}

func redirect(args []string) (servertest.Fault, error) {
	status, err := strconv.Atoi(args[0])
	if err != nil {
		return servertest.Fault{}, errors.New("the status is no number")
	}
	return servertest.Redirect(status, args[1]), nil
}
