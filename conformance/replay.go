package conformance

import (
	"bytes"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/redo-go/redo/internal/wire"
)

// thrice sends one request three times. The first must succeed.
func (t *trial) thrice() (first *answer, again []*answer) {
	return t.thriceOf(t.request(t.operation(), t.key(), t.payload()))
}

func (t *trial) thriceOf(r request) (first *answer, again []*answer) {
	first = t.accept("the first request", r)
	for _, label := range []string{"the second", "the third"} {
		again = append(again, t.retry(label, r))
	}
	return first, again
}

// patienceInFlight is the time that a key may remain in flight after its response. The server may record the
// response a moment later.
const patienceInFlight = 2 * time.Second

var replayCases = []Case{{
	Slug: slugEffect, Level: Must, Needs: []Need{NeedEffects},
	Sequence: "one key, one payload, three times",
	Rule:     "One key, one effect.",
	Why:      "This is the purpose of the key: a retry must not pay twice.",
	Sources:  []Source{draft("2.6", Should), contract("each operation takes effect once", Must)},
	run: func(t *trial) {
		t.thrice()
		t.effect(1)
	},
}, {
	Slug: slugStatus, Level: Must, gated: true,
	Sequence: "one key, one payload, three times",
	Rule:     "A replay has the first response's status. Another success is a warning where the profile allows it.",
	Why:      "A retry that gets 409 or 200 where the first request got 201 takes another branch in the client.",
	Sources:  []Source{draft("2.6", Should), stripe(), contract("replay", Must)},
	run: func(t *trial) {
		first, again := t.thrice()
		for _, a := range again {
			judge := t.want
			if a.ok() && !t.run.profile.ExactStatus {
				judge = t.should
			}
			if !judge(a.status == first.status, fmt.Sprintf("status %d", first.status), a) {
				break // the third has the same fault
			}
		}
		if !t.ended() {
			t.proven(t.operation(), first, again...)
		}
	},
}, {
	Slug: slugBody, Level: Must, Needs: []Need{NeedOneBody}, gated: true,
	Sequence: "one key, one payload, three times",
	Rule:     "A replay has the first response's body, byte for byte.",
	Why:      "The retry needs the id of the first request's result. Bytes, because signatures and caches go by them.",
	Sources:  []Source{draft("2.6", Should), stripe(), contract("replay", Must)},
	run: func(t *trial) {
		first, again := t.thrice()
		if t.fx() {
			t.proven(t.operation(), first, again...)
		}
		for _, a := range again {
			if !a.ok() {
				t.block(slugStatus, "there is no replay: %s", a)
			}
			if !t.want(bytes.Equal(a.content(), first.content()), "the body of the first response, "+first.String(),
				t.unlike(first, a)) {
				break // as above
			}
		}
		if !t.ended() {
			t.proven(t.operation(), first, again...)
		}
	},
}, {
	Slug: "replay-headers", Level: Should, gated: true,
	Sequence: "one key, one payload, three times; some times more if a header has another value",
	Rule: "A replay has the first response's end-to-end headers with their values, except those about one response: " +
		"Date, Set-Cookie, rate limits, ids of requests and traces. A header of the service's own may have another " +
		"value if it is a time, or if it changes from replay to replay.",
	Why:     "Clients find the created resource by its Location, follow its Link, and parse a body by its type.",
	Sources: []Source{draft("2.6", Should), contract("replay: same end-to-end headers", Must)},
	run: func(t *trial) {
		r := t.request(t.operation(), t.key(), t.payload())
		first, again := t.thriceOf(r)
		kept := wire.EndToEnd(first.header)
		delete(kept, "Content-Encoding") // replay-encoding judges it
		delete(kept, "Vary")
		if len(kept) == 0 {
			t.skip("the target sends no header that a replay could keep")
		}
		judge := t.want
		if t.run.profile.ExactHeaders {
			judge = t.must
		}
		fixed := t.fixed(kept, r, again)
		for _, a := range again {
			var missing, others []string
			for _, name := range sortedKeys(kept) {
				switch was, is := kept[name], a.header.Values(name); {
				case len(is) == 0:
					missing = append(missing, name)
				case (slices.Contains(identifying, name) || slices.Contains(fixed, name)) && !slices.Equal(was, is):
					others = append(others, fmt.Sprintf("%s %q instead of %q", name, is, was))
				}
			}
			ok := judge(len(missing) == 0, "every end-to-end header of the first response",
				"without "+strings.Join(missing,
					", "))
			ok = judge(len(others) == 0, "the first response's headers", strings.Join(others, "; ")) && ok
			if !ok {
				break
			}
		}
		if !t.ended() {
			t.proven(t.operation(), first, again...)
		}
	},
}, {
	Slug: "replay-cookie-date", Level: Inform, gated: true,
	Sequence: "a key; a second later the same",
	Rule: "Records whether Date and Set-Cookie are replayed. A header of which the replay has other " +
		"lines is a warning.",
	Why: "A stored cookie may be another session's. A list that was split at its commas, or joined, is " +
		"another list: dates have commas.",
	Sources: []Source{contract("never replayed: Date, Set-Cookie", Should), rfc("9110", "5.3", Must)},
	run: func(t *trial) {
		r := t.request(t.operation(), t.key(), t.payload())
		first := t.accept("the first request", r)
		t.wait(1100 * time.Millisecond) // until Date, which counts seconds, must change
		again := t.retry("a second later", r)
		t.note("Date: %s", fate(first, again, "Date"))
		t.note("Set-Cookie: %s", fate(first, again, "Set-Cookie"))
		for _, name := range sortedKeys(first.header) {
			a, b := first.header.Values(name), again.header.Values(name)
			if len(a) != len(b) && len(b) > 0 {
				// Values may differ between responses. Equal joined text means that the same list is in other lines.
				t.should(strings.Join(a, ", ") != strings.Join(b, ", "), fmt.Sprintf("%s in %d lines", name, len(a)),
					fmt.Sprintf("the same in %d lines", len(b)))
			}
		}
	},
}, {
	Slug: "replay-marker", Level: Should, gated: true,
	Sequence: "one key, one payload, three times",
	Rule:     "A replay is marked as one, where the profile has a marker, and a first response never is.",
	Why:      "Only the marker shows a client that a final 5xx will stay, and an operator how often retries happen.",
	Sources:  []Source{stripe(), contract("replay markers", Must)},
	run: func(t *trial) {
		first, again := t.thrice()
		t.proven(t.operation(), first, again...)
		// A request that was sent again may be the first retry of its key.
		t.want(first.resent || !t.run.profile.marked(first), "no marker on the first response", markers(first.header))
		for _, a := range again {
			if len(t.run.profile.Markers) > 0 {
				t.want(t.run.profile.declares(a), t.run.profile.Markers[0].String()+" on the replay", markers(a.header))
			}
		}
		if len(t.run.profile.Markers) == 0 && !t.ended() {
			t.note("on the replay: %s", markers(again[0].header))
		}
	},
}}

// identifying lists the headers by which clients find and read the created resource. Their values must be the
// same.
var identifying = []string{"Content-Type", "Location", "Content-Location", "Etag", "Link"}

// moreReplays is the number of further replays that show whether a header belongs to one response. The replays of two
// nodes that name themselves are all of the other node once in a hundred runs, and a failure is repeated.
const moreReplays = 6

// fixed returns the kept headers that have another value in the replays than in the first response, and the same one in
// all replays. They belong to the operation. A header that varies belongs to one response: it names a node, or counts.
func (t *trial) fixed(kept http.Header, r request, again []*answer) (names []string) {
	for _, name := range sortedKeys(kept) {
		if v := again[0].header.Values(name); len(v) > 0 && !sameList(v, kept[name]) && !isTime(v) {
			names = append(names, name)
		}
	}
	varies := func(a *answer) func(string) bool {
		return func(name string) bool { return !slices.Equal(a.header.Values(name), again[0].header.Values(name)) }
	}
	for _, a := range again[1:] {
		names = slices.DeleteFunc(names, varies(a))
	}
	for n := 0; n < moreReplays && len(names) > 0; n++ {
		names = slices.DeleteFunc(names, varies(t.send("one more", r)))
	}
	return names
}

// sameList reports whether two headers have the same elements. They may be in other lines: see replay-cookie-date.
func sameList(a, b []string) bool { return strings.Join(a, ", ") == strings.Join(b, ", ") }

func isTime(values []string) bool {
	_, err := http.ParseTime(strings.Join(values, ""))
	return err == nil
}

func fate(first, again *answer, name string) string {
	a, b := first.header.Values(name), again.header.Values(name)
	switch {
	case len(a) == 0 && len(b) == 0:
		return "sent by neither"
	case len(a) == 0:
		return "on the replay alone"
	case len(b) == 0:
		return "left out of the replay"
	case slices.Equal(a, b):
		return "replayed"
	}
	return "made anew"
}

func markers(h http.Header) string {
	lines := headerLines(h, func(name string) bool { return strings.Contains(strings.ToLower(name), "idempot") })
	if len(lines) == 0 {
		return "no marker"
	}
	return strings.Join(lines, ", ")
}
