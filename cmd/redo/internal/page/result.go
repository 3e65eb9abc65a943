package page

import (
	"cmp"
	"fmt"
	"net/http"

	"github.com/redo-go/redo/conformance"
)

// result is a case and its findings, as the page shows them.
type result struct {
	conformance.Result
	ID       string
	Finding  bool   // it is among the findings
	Sequence string // of the case, where this version knows it
	Brief    string // one line, for the list
	Delta    string // the change in the number of effects; empty: it was not counted
	Took     string
	Diagram  *diagram // nil: no exchange was kept
	Wire     []message
	Command  string // curl
	Cut      int    // bytes of a command that is too long to be copied; zero: it is whole
}

// maxCommand is the longest command that is shown: half of one can't be run.
const maxCommand = 16 << 10

func newResult(anchors string, res conformance.Result) *result {
	v := &result{Result: res, ID: anchors + res.Slug, Took: duration(res.Micros), Command: res.Curl}
	if c, ok := known[res.Slug]; ok {
		v.Sequence = c.Sequence
	}
	if res.Effects != nil {
		v.Delta = fmt.Sprintf("%+d", *res.Effects)
	}
	if len(res.Exchanges) > 0 {
		v.Diagram = newDiagram(res.Exchanges)
		for i, x := range res.Exchanges {
			v.Wire = append(v.Wire, newMessage(i+1, x))
		}
	}
	if len(v.Command) > maxCommand {
		v.Cut, v.Command = len(v.Command), ""
	}
	v.Brief = excerpt(cmp.Or(res.Brief(), res.Rule), 160)
	return v
}

// known are the cases of this version by their slugs.
var known = func() map[string]conformance.Case {
	cases := map[string]conformance.Case{}
	for _, c := range conformance.Cases() {
		cases[c.Slug] = c
	}
	return cases
}()

// unremarkable is the rank from which on results stand in the sections alone.
const unremarkable = 6

// rank orders findings. Those that keep a target from conforming come first, and expected ones last.
func (r *result) rank() int {
	switch {
	case r.Expected != "" && r.Verdict == conformance.Pass:
		return 1
	case r.Expected != "" && (r.Verdict == conformance.Fail || r.Verdict == conformance.Warn):
		return 5
	}
	switch r.Verdict {
	case conformance.Fail:
		return 0
	case conformance.Inconclusive:
		if len(r.Exchanges) == 0 && r.Level != conformance.Must {
			return unremarkable
		}
		return 2
	case conformance.Harness:
		if len(r.Exchanges) == 0 {
			return unremarkable // the case did not begin, and the report's head has the reason
		}
		return 3
	case conformance.Warn:
		return 4
	}
	return unremarkable
}

// A message is an exchange in full.
type message struct {
	*conformance.Exchange
	Number            int
	Sent, First, Done string
	Response          string // the status line's end
}

func newMessage(number int, x *conformance.Exchange) message {
	m := message{Exchange: x, Number: number, Sent: duration(x.SentMicros), Done: duration(x.DoneMicros)}
	if x.FirstMicros > 0 {
		m.First = duration(x.FirstMicros)
	}
	if x.Status != 0 {
		m.Response = status(x.Status)
	}
	return m
}

func status(code int) string {
	if text := http.StatusText(code); text != "" {
		return fmt.Sprintf("%d %s", code, text)
	}
	return fmt.Sprint(code)
}
