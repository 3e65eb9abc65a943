package page

import (
	"fmt"
	"strings"
	"testing"

	"github.com/redo-go/redo/conformance"
)

// draw writes a diagram as text: the sender, the message, and the bars at that time.
func draw(d *diagram) string {
	letters := map[string]string{"": ".", "on": "|", "begins": "v", "ends": "^", "crossed": "-", "on crossed": "+"}
	var b strings.Builder
	for _, r := range d.Rows {
		fmt.Fprintf(&b, "%s %d ", r.Kind, r.Number)
		for _, cell := range r.Bars {
			b.WriteString(letters[cell])
		}
		b.WriteString("\n")
	}
	return b.String()
}

func TestDiagramIsInTheOrderOfTime(t *testing.T) {
	at := func(sent, done int64) *conformance.Exchange { return exchange("", sent, done, 200, "") }
	for name, c := range map[string]struct {
		exchanges []*conformance.Exchange
		want      string
	}{
		"one after the other use one bar": {
			[]*conformance.Exchange{at(0, 10), at(10, 20)},
			"send 1 v\nresponse 1 ^\nsend 2 v\nresponse 2 ^\n",
		},
		"those at one time stand side by side, and arrows cross the nearer bars": {
			[]*conformance.Exchange{at(0, 30), at(10, 20), at(15, 40)},
			"send 1 v..\nsend 2 +v.\nsend 3 ++v\nresponse 2 +^|\nresponse 1 ^.|\nresponse 3 --^\n",
		},
		"a bar that is free is used again": {
			[]*conformance.Exchange{at(0, 10), at(5, 30), at(20, 40)},
			"send 1 v.\nsend 2 +v\nresponse 1 ^|\nsend 3 v|\nresponse 2 +^\nresponse 3 ^.\n",
		},
		"a long while is told": {
			[]*conformance.Exchange{at(0, 500_000), at(900_000, 900_001)},
			"send 1 v\ngap 0 |\nresponse 1 ^\ngap 0 .\nsend 2 v\nresponse 2 ^\n",
		},
		"an end before its beginning is drawn after it": {
			[]*conformance.Exchange{at(50, 10)},
			"send 1 v\nresponse 1 ^\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got := draw(newDiagram(c.exchanges)); got != c.want {
				t.Errorf("got\n%swant\n%s", got, c.want)
			}
		})
	}
}

func TestDiagramSaysWhatBecameOfEachRequest(t *testing.T) {
	reset := exchange("the lost one", 0, 10, 0, "")
	reset.Error = "connection reset by peer"
	half := exchange("half an answer", 20, 30, 200, "{")
	half.Error = "the connection was closed"
	replay := exchange("the replay", 40, 50, 201, `{"id": 1}`)
	replay.Interim, replay.ResponseHeader = []int{100, 103}, []string{"Idempotency-Status: replayed"}
	odd := exchange("an odd one", 60, 70, 299, "")
	var got []string
	for _, r := range newDiagram([]*conformance.Exchange{reset, half, replay, odd}).Rows {
		if r.Kind != "send" {
			got = append(got, strings.Join([]string{r.Kind, r.Line, r.Label, r.Note}, "|"))
		}
	}
	want := []string{
		"broken||connection reset by peer|", "broken|200 OK|the connection was closed|{",
		`response|100, then 103, then 201 Created|replayed|{"id": 1}`, "response|299||",
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestKeyIsKnownByItsHeader(t *testing.T) {
	for want, header := range map[string][]string{
		"key abc":   {"Host: x", "Idempotency-Key: abc"},
		`key "abc"`: {`X-Idempotency-Token: "abc"`},
		"":          {"Content-Type: text/plain"},
	} {
		if got := keyNote(header); got != want {
			t.Errorf("%v: %q, want %q", header, got, want)
		}
	}
}

func TestDiagramIsForReading(t *testing.T) {
	var many []*conformance.Exchange
	for i := range int64(70) {
		many = append(many, exchange("", i, 1000+i, 200, ""))
	}
	d := newDiagram(many)
	if d.Left != 10 || len(d.Rows) != 120 {
		t.Errorf("%d rows and %d left out, want 120 and 10", len(d.Rows), d.Left)
	}
	for _, r := range d.Rows {
		if len(r.Bars) != maxBars {
			t.Fatalf("a row has %d bars, want %d", len(r.Bars), maxBars)
		}
	}
}
