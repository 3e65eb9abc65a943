package conformance

import (
	"bytes"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
)

// thrice sends one request three times: the first has to succeed.
func (t *trial) thrice() (first *answer, again []*answer) {
	r := t.request(t.operation(), t.key(), t.payload())
	first = t.accept("the first request", r)
	for _, label := range []string{"the second", "the third"} {
		again = append(again, t.send(label, r))
	}
	return first, again
}

var replayCases = []Case{{
	Slug: slugEffect, Level: Must, Needs: []Need{NeedEffects},
	Sequence: "K,B1 three times",
	Rule:     "One key, one effect: E=1.",
	Why:      "This is what the key is for: a retry must not pay twice.",
	Sources:  []Source{draft("2.6", Should), contract("each operation takes effect once", Must)},
	run: func(t *trial) {
		t.thrice()
		t.effect(1)
	},
}, {
	Slug: slugStatus, Level: Must, gated: true,
	Sequence: "K,B1 three times",
	Rule:     "A replay has the first answer's status.",
	Why:      "A retry that is told 409 or 200 where the first was told 201 takes another branch in the client.",
	Sources:  []Source{draft("2.6", Should), stripe(), contract("replay", Must)},
	run: func(t *trial) {
		first, again := t.thrice()
		for _, a := range again {
			t.want(a.status == first.status, fmt.Sprintf("status %d", first.status), a)
		}
		if t.ended() {
			return
		}
		t.proven(t.operation(), first, again...)
	},
}, {
	Slug: slugBody, Level: Must, gated: true,
	Sequence: "K,B1 three times",
	Rule:     "A replay has the first answer's body, byte for byte.",
	Why:      "The retry needs the id of what the first request made. Bytes, because signatures and caches go by them.",
	Sources:  []Source{draft("2.6", Should), stripe(), contract("replay", Must)},
	run: func(t *trial) {
		first, again := t.thrice()
		if t.fx() {
			if n := t.effects(); n != 1 {
				t.block(slugEffect, "there were %s, so these are no replays", effectsText(n))
			}
		}
		for i, a := range again {
			if a.status != first.status {
				t.block(slugStatus, "the status is another one")
			}
			t.want(bytes.Equal(a.body, first.body), "the body of the first answer, "+excerpt(string(first.body)),
				fmt.Sprintf("another one in answer %d, %s", i+2, excerpt(string(a.body))))
		}
		if !t.ended() {
			t.proven(t.operation(), first, again...)
		}
	},
}, {
	Slug: "replay-headers", Level: Should, gated: true, after: replays,
	Sequence: "K,B1 three times",
	Rule:     "A replay has the first answer's Content-Type, Location and ETag.",
	Why:      "Clients find what was made by its Location, and parse a body by its type.",
	Sources:  []Source{draft("2.6", Should), contract("replay: same end-to-end headers", Must)},
	run: func(t *trial) {
		first, again := t.thrice()
		for _, a := range again {
			for _, name := range []string{"Content-Type", "Location", "ETag"} {
				t.want(slices.Equal(first.header.Values(name), a.header.Values(name)),
					fmt.Sprintf("%s %q", name, first.header.Values(name)), fmt.Sprintf("%s %q", name, a.header.Values(name)))
			}
		}
		if !t.ended() {
			t.proven(t.operation(), first, again...)
		}
	},
}, {
	Slug: "replay-cookie-date", Level: Inform, gated: true, after: replays,
	Sequence: "K,B1; a second later K,B1",
	Rule:     "Records whether Date and Set-Cookie are replayed. A header of which the replay has other lines is a warning.",
	Why:      "A stored cookie may be another session's. A list that was split at its commas, or joined, is another list: dates have commas.",
	Sources:  []Source{contract("never replayed: Date, Set-Cookie", Should), rfc("9110", "5.3", Must)},
	run: func(t *trial) {
		r := t.request(t.operation(), t.key(), t.payload())
		first := t.accept("the first request", r)
		t.wait(1100 * time.Millisecond) // until Date, which counts seconds, has to be another one
		again := t.send("a second later", r)
		t.note("Date: %s", fate(first, again, "Date"))
		t.note("Set-Cookie: %s", fate(first, again, "Set-Cookie"))
		for _, name := range sortedKeys(first.header) {
			a, b := first.header.Values(name), again.header.Values(name)
			if len(a) != len(b) && len(b) > 0 {
				// Values may differ between answers, but their joined text says whether it is one list in other lines.
				t.should(strings.Join(a, ", ") != strings.Join(b, ", "), fmt.Sprintf("%s in %d lines", name, len(a)), fmt.Sprintf("the same in %d lines", len(b)))
			}
		}
	},
}, {
	Slug: "replay-marker", Level: Should, gated: true, after: replays,
	Sequence: "K,B1 three times",
	Rule:     "A replay is marked as one, where the profile has a marker, and a first answer never is.",
	Why:      "Only the marker tells a client that a final 5xx will stay, and an operator how often retries happen.",
	Sources:  []Source{stripe(), contract("replay markers", Must)},
	run: func(t *trial) {
		first, again := t.thrice()
		t.proven(t.operation(), first, again...)
		t.want(!t.run.profile.marked(first.header), "no marker on the first answer", markers(first.header))
		for _, a := range again {
			if len(t.run.profile.Markers) > 0 {
				t.want(t.run.profile.declares(a.header), fmt.Sprintf("%s: %s on the replay", t.run.profile.Markers[0].Name, t.run.profile.Markers[0].Value), markers(a.header))
			}
		}
		if len(t.run.profile.Markers) == 0 && !t.ended() {
			t.note("on the replay: %s", markers(again[0].header))
		}
	},
}}

// ended reports whether a rule was found broken.
func (t *trial) ended() bool {
	return slices.ContainsFunc(t.findings, func(f Finding) bool { return f.Verdict.broken() })
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
