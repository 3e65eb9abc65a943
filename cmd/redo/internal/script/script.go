// Package script reads faults as they are written on a command line:
//
//	k1: reset-after-effect, 503, ok
//
// is the script of the key k1: its first request meets the first fault, and so on. The faults are those of package
// servertest, with hyphens for its capitals and arguments in parentheses: delay(2s), status-after-effect(502). A bare
// number is a status.
package script

import (
	"errors"
	"fmt"
	"strings"

	"github.com/redo-go/redo/servertest"
)

// The keys that stand for others.
const (
	// Each stands for every key without a script. Each of these keys goes through all steps.
	Each = "*"
	// Next stands for the next key without a script.
	Next = "next"
	// None stands for requests without a key.
	None = "-"
)

// Parse reads scripts. In a text they have line breaks or semicolons between them, and a line
// that starts with # is a comment. A key with a colon, or a key that is one of the names above, is put in quotation
// marks.
func (l Language) Parse(texts ...string) ([]servertest.Option, error) {
	var opts []servertest.Option
	keyless := false
	for _, text := range texts {
		lines := scripts(text)
		if len(lines) == 0 {
			return nil, fmt.Errorf("script %q: it has no faults", text)
		}
		for _, line := range lines {
			key, quoted, steps, err := l.parse(line)
			if err != nil {
				return nil, fmt.Errorf("script %q: %w", line, err)
			}
			switch {
			case quoted:
				opts = append(opts, servertest.Script(key, steps...))
			case key == Each:
				opts = append(opts, servertest.ScriptEach(steps...))
			case key == Next:
				opts = append(opts, servertest.ScriptNext(steps...))
			case key == None:
				keyless = true
				opts = append(opts, servertest.Script("", steps...))
			default:
				opts = append(opts, servertest.Script(key, steps...))
			}
		}
	}
	if !keyless {
		// A script without steps: faults for all keys do not meet the requests for the count of effects.
		opts = append(opts, servertest.Script(""))
	}
	return opts, nil
}

// scripts cuts a text where one script ends. A semicolon in parentheses or quotation marks is a part of it.
func scripts(text string) []string {
	var all []string
	for line := range strings.Lines(text) {
		if strings.HasPrefix(strings.TrimSpace(line), "#") {
			continue
		}
		for _, s := range split(line, ';') {
			if s = strings.TrimSpace(s); s != "" {
				all = append(all, s)
			}
		}
	}
	return all
}

// split cuts a text at the separators that stand neither in parentheses nor in quotation marks.
func split(s string, separator byte) []string {
	var parts []string
	deep, quoted, from := 0, false, 0
	for i := range len(s) {
		switch c := s[i]; {
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '(':
			deep++
		case c == ')':
			deep--
		case c == separator && deep == 0:
			parts = append(parts, s[from:i])
			from = i + 1
		}
	}
	return append(parts, s[from:])
}

// parse reads one script.
func (l Language) parse(line string) (key string, quoted bool, steps []servertest.Fault, err error) {
	parts := split(line, ':')
	if len(parts) != 2 {
		return "", false, nil, errors.New("write it as key: fault, fault; put a key with a colon in quotation marks")
	}
	key = strings.TrimSpace(parts[0])
	if len(key) > 1 && key[0] == '"' && key[len(key)-1] == '"' {
		key, quoted = key[1:len(key)-1], true
	}
	switch {
	case key == "" && quoted:
		return "", false, nil, errors.New("no request has an empty key; - are the requests without one")
	case key == "":
		return "", false, nil, errors.New("the key is missing before the colon")
	}
	for _, text := range split(parts[1], ',') {
		f, err := l.Fault(strings.TrimSpace(text))
		if err != nil {
			return "", false, nil, err
		}
		steps = append(steps, f)
	}
	return key, quoted, steps, nil
}
