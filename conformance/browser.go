package conformance

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
)

var browserCases = []Case{{
	Slug: "key-from-browser", Level: Must, Needs: []Need{NeedOrigin},
	Sequence: "a browser's preflight for the operation with a key; the operation twice with that page's Origin",
	Rule: "A page of the declared origin can send the key: the preflight allows its header, and the responses may be " +
		"read. The header that marks a replay should be exposed.",
	Why: "A browser drops the request without an error that a page can read, or hides the marker, so that a page " +
		"can't " +
		"tell a replay from a second order.",
	Sources: []Source{fetchStandard("CORS protocol"), contract("conformance", Should)},
	run: func(t *trial) {
		r := t.request(t.operation(), t.key(), t.payload()).set("Origin", t.run.target.Origin)
		p := t.send("the preflight", t.preflight(r))
		t.want(p.ok(), "2xx", p)
		t.readable(p)
		if t.run.profile.KeyMember == "" {
			t.allows(p, "Access-Control-Allow-Headers", t.run.target.keyHeader())
		}
		if r.method != http.MethodPost {
			t.allows(p, "Access-Control-Allow-Methods", r.method)
		}
		t.readable(t.accept("the operation", r))
		b := t.retry("the same again", r)
		t.readable(b)
		var marks []string
		for name, values := range b.header {
			if t.run.profile.marked(&answer{header: http.Header{name: values}}) {
				marks = append(marks, name)
			}
		}
		exposed := slices.ContainsFunc(marks, func(name string) bool {
			return lists(b.header, "Access-Control-Expose-Headers", name)
		})
		t.should(len(marks) == 0 || exposed, "Access-Control-Expose-Headers with "+strings.Join(marks, " or "),
			shown(b.header, "Access-Control-Expose-Headers"))
		t.effect(1)
	},
}, {
	Slug: "cors-preflight", Level: Must, Needs: []Need{NeedOrigin},
	Sequence: "a browser's preflight; one with a key; the operation under that key; the preflight with the key again",
	Rule: "A preflight needs no key, takes none, and has no effect: each is a 2xx and no replay, and the operation " +
		"runs, with one effect.",
	Why: "Browsers send no key with a preflight. A server that wants one there is closed to every page, and one that " +
		"records the preflight replays it for the order.",
	Sources: []Source{
		fetchStandard("CORS protocol"), rfc("9110", "9.2.1", Must), contract("safe methods never reserve a key", Must),
	},
	run: func(t *trial) {
		key := t.key()
		r := t.request(t.operation(), key, t.payload()).set("Origin", t.run.target.Origin)
		bare := t.preflight(r)
		keyed := t.keyed(bare, t.form(key))
		for _, p := range []request{bare, keyed} {
			a := t.send("the preflight", p)
			t.want(a.ok(), "2xx", a)
		}
		t.effect(0)
		a := t.send("the operation under that key", r)
		t.want(a.ok(), "2xx", a)
		b := t.send("the preflight with the key again", keyed)
		t.want(b.ok(), "2xx", b)
		t.want(!t.run.profile.marked(b), "no replay", markers(b.header))
		t.want(len(a.body) == 0 || !same(a, b), "another response than the operation's", b)
		t.effect(1)
	},
}}

// preflight returns the request that a browser sends before r.
func (t *trial) preflight(r request) request {
	var names []string
	for _, f := range r.fields {
		if name := strings.ToLower(f.name); !slices.Contains(noPreflight, name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	p := request{method: http.MethodOptions, path: r.path}
	return p.with("Origin", t.run.target.Origin).with("Access-Control-Request-Method", r.method).
		with("Access-Control-Request-Headers", strings.Join(slices.Compact(names), ","))
}

// noPreflight lists headers that a page may always send, and headers that only the browser sets.
var noPreflight = []string{"accept", "accept-encoding", "accept-language", "content-language", "cookie", "origin"}

// readable judges whether a page of the declared origin may read a response.
func (t *trial) readable(a *answer) {
	const name = "Access-Control-Allow-Origin"
	v := a.header.Get(name)
	t.want(v == "*" || v == t.run.target.Origin, name+": "+t.run.target.Origin, shown(a.header, name))
}

// allows judges whether a preflight allows a header or a method.
func (t *trial) allows(a *answer, list, name string) {
	t.want(lists(a.header, list, name), list+" with "+name, shown(a.header, list))
}

// lists reports whether a header is a list that has the name or an asterisk.
func lists(h http.Header, list, name string) bool {
	for _, line := range h.Values(list) {
		for item := range strings.SplitSeq(line, ",") {
			if item = strings.TrimSpace(item); item == "*" || strings.EqualFold(item, name) {
				return true
			}
		}
	}
	return false
}

func shown(h http.Header, name string) string { return fmt.Sprintf("%s %q", name, h.Values(name)) }
