package conformance

import (
	"encoding/json"
	"fmt"
	"strings"
)

// unlike describes in a few words how a response differs from the expected one.
func (t *trial) unlike(first, a *answer) string {
	switch {
	case a.err != nil || first.err != nil:
		return a.String()
	case a.status != first.status && (!a.ok() || t.run.replays == 0):
		return a.String()
	}
	was, is := t.run.mask.hide(string(first.content())), t.run.mask.hide(string(a.content()))
	if was == is {
		return a.String()
	}
	return fmt.Sprintf("%d, but %s", a.status, difference(was, is))
}

// difference describes where two texts differ: at the first member of a JSON object, or else at the first byte.
func difference(was, is string) string {
	var before, after map[string]json.RawMessage
	if json.Unmarshal([]byte(was), &before) == nil && json.Unmarshal([]byte(is), &after) == nil {
		for _, name := range sortedKeys(before) {
			if value, ok := after[name]; !ok {
				return fmt.Sprintf("without the member %q", name)
			} else if string(value) != string(before[name]) {
				return fmt.Sprintf("%q is %s instead of %s", name, excerpt(string(value)),
					excerpt(string(before[name])))
			}
		}
		for _, name := range sortedKeys(after) {
			if _, ok := before[name]; !ok {
				return fmt.Sprintf("with a member %q more", name)
			}
		}
		return "the same JSON in other bytes"
	}
	at := 0
	for at < len(was) && at < len(is) && was[at] == is[at] {
		at++
	}
	if at == len(is) || at == len(was) {
		return fmt.Sprintf("a body of %d bytes instead of %d", len(is), len(was))
	}
	from := max(0, at-10)
	return fmt.Sprintf("the body differs from byte %d: %q instead of %q", at, excerpt(is[from:]), excerpt(was[from:]))
}

// describe returns the start of a body in one line, with secrets masked.
func (m *mask) describe(body []byte) string {
	return excerpt(strings.Join(strings.Fields(m.hide(string(body[:min(len(body), 64<<10)]))), " "))
}
