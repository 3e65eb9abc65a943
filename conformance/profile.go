package conformance

import (
	"fmt"
	"net/http"
	"slices"

	"github.com/redo-go/redo/internal/wire"
	"github.com/redo-go/redo/taxonomy"
)

// Profile is one API's set of statuses and headers. APIs legitimately differ here. The target's file may hold a
// custom profile. The zero value is invalid.
type Profile struct {
	// Name is the profile's name in reports.
	Name string `json:"name"`
	// Sources lists the URLs of the documents that have these rules.
	Sources []string `json:"sources,omitempty"`

	// Header is the key's header if the target declares none. Empty means Idempotency-Key.
	Header string `json:"header,omitempty"`
	// KeyMember is a path in the request's JSON. The key is there, and in no header. See [Effects] for paths.
	KeyMember string `json:"key_member,omitempty"`
	// FirstSent is a header with the time of a key's first request.
	FirstSent string `json:"first_sent,omitempty"`
	// KeyForm is the form that keys must have.
	KeyForm KeyForm `json:"key_form,omitempty"`

	// Mismatch lists the statuses for a key that was used with another payload.
	Mismatch []int `json:"mismatch"`
	// MissingKey lists the statuses for a request without a required key. Empty allows every 4xx.
	MissingKey []int `json:"missing_key"`
	// MalformedKey lists the statuses for an unreadable key. Empty allows every 4xx.
	MalformedKey []int `json:"malformed_key"`
	// InFlight lists the statuses for a duplicate of a request that is still running. The server may always wait for
	// that request instead.
	InFlight []int `json:"in_flight"`
	// MaxKey is the maximum key length in bytes if the target declares none. Zero means that the profile has no
	// maximum.
	MaxKey int `json:"max_key,omitempty"`
	// Retention is the minimum time for which the API keeps a key. Zero means that the API leaves it open.
	Retention Duration `json:"retention,omitzero"`
	// ServerErrors is the result of a retry after a 5xx: Replayed, Executed or, by default, Either.
	ServerErrors AfterError `json:"server_errors,omitempty"`
	// Markers lists the headers that mark a replay. A replay must have one of them. An empty list requires no marker.
	Markers []Marker `json:"markers,omitempty"`
	// ExactStatus requires that a replay has the first response's status. Otherwise another success status is a
	// warning.
	ExactStatus bool `json:"exact_status,omitempty"`
	// ExactHeaders requires that a replay has the first response's end-to-end headers. Otherwise a difference is a
	// warning.
	ExactHeaders bool `json:"exact_headers,omitempty"`
	// WholePayload requires that a key is refused for a payload that differs in any part. Otherwise a replay is a warning
	// if the payload differs in one variable of the template.
	WholePayload bool `json:"whole_payload,omitempty"`
	// Problems requires that errors are problem documents (RFC 9457) or have a Link.
	Problems bool `json:"problems,omitempty"`
	// Codes requires that errors have codes: those of Words, or redo's, in the Error-Code header or in the problem
	// document.
	Codes bool `json:"codes,omitempty"`
	// Words has the API's own words for redo's codes.
	Words map[taxonomy.Code]string `json:"words,omitempty"`
	// WordsAt lists the paths in an error's JSON where such a word may be.
	WordsAt []string `json:"words_at,omitempty"`
	// WordsIn is a header where such a word may be.
	WordsIn string `json:"words_in,omitempty"`
	// FailsWith2xx states that a response with text at one of WordsAt is an error with any status.
	FailsWith2xx bool `json:"fails_with_2xx,omitempty"`
	// Envelope lists the top members of a JSON response that belong to one response, and not to the operation.
	Envelope []string `json:"envelope,omitempty"`
	// NewBody states that a replay may have another body than the first response.
	NewBody bool `json:"new_body,omitempty"`
	// AnyPayload states that the API has no rule for a key that was used with another payload. Mismatch is then empty.
	AnyPayload bool `json:"any_payload,omitempty"`
	// BothForms requires that a key is the same with and without quotation marks.
	BothForms bool `json:"both_forms,omitempty"`
	// Query includes the query in the payload.
	Query bool `json:"query,omitempty"`
	// MismatchFirst requires that another payload is refused as a mismatch even while the first request is running.
	MismatchFirst bool `json:"mismatch_first,omitempty"`
}

// Marker is a header that distinguishes a replay from a first response, or a member of the response's JSON. An empty
// value matches any value.
type Marker struct {
	Name   string `json:"name,omitempty"`   // of the header
	Member string `json:"member,omitempty"` // the member's path
	Value  string `json:"value,omitempty"`
}

// String returns the marker as a header line.
func (m Marker) String() string { return m.Name + m.Member + ": " + m.Value }

// in reports whether a response has the marker.
func (m Marker) in(a *answer) bool {
	if m.Member != "" {
		v, err := valueAt(a.plainBody(), m.Member)
		return err == nil && (m.Value == "" || fmt.Sprint(v) == m.Value)
	}
	for _, v := range a.header.Values(m.Name) {
		if m.Value == "" || m.Value == v {
			return true
		}
	}
	return false
}

// KeyForm is a form of keys.
type KeyForm string

// These are the forms of keys.
const (
	AnyKey KeyForm = ""
	UUID   KeyForm = "uuid"
	UUIDv7 KeyForm = "uuid7"
)

// AfterError is the treatment of a key whose request ended in a 5xx.
type AfterError string

// These are the treatments of a 5xx.
const (
	Either   AfterError = ""
	Replayed AfterError = "replay"  // the 5xx is the key's permanent response
	Executed AfterError = "execute" // the retry runs
)

// ours returns the profile with redo's own rules, for a server that sends redo's headers.
func (p Profile) ours() Profile {
	p.ExactStatus, p.ExactHeaders, p.WholePayload, p.Codes = true, true, true, true
	p.BothForms, p.Query, p.MismatchFirst = true, true, true
	if redo, _ := profileNamed("redo"); p.Name == "ietf" {
		p.Mismatch = slices.Concat(p.Mismatch, redo.Mismatch)
	}
	return p
}

// validate returns FieldErrors.
func (p Profile) validate() error {
	var wrong FieldErrors
	for _, list := range []struct {
		name     string
		statuses []int
	}{
		{"mismatch", p.Mismatch}, {"missing_key", p.MissingKey}, {"malformed_key", p.MalformedKey},
		{"in_flight", p.InFlight},
	} {
		needed := list.name == "in_flight" || list.name == "mismatch" && !p.AnyPayload
		wrong.check(len(list.statuses) > 0 || !needed, list.name, "there is no status")
		for _, s := range list.statuses {
			wrong.check(s >= 400 && s <= 499, list.name, "%d is no status of a client error", s)
		}
	}
	wrong.check(p.MaxKey == 0 || p.MaxKey >= minKey, "max_key", "%d is less than %d", p.MaxKey, minKey)
	wrong.check(slices.Contains([]AfterError{Either, Replayed, Executed}, p.ServerErrors), "server_errors",
		"%q can be %q, %q or left out", p.ServerErrors, Replayed, Executed)
	wrong.check(slices.Contains([]KeyForm{AnyKey, UUID, UUIDv7}, p.KeyForm), "key_form", "%q can be %q, %q or left out",
		p.KeyForm, UUID, UUIDv7)
	if p.Header != "" {
		wrong.add("header", wire.CheckKeyHeader(p.Header))
	}
	if p.FirstSent != "" {
		wrong.add("first_sent", validateHeaders(map[string]string{p.FirstSent: ""}))
	}
	wrong.check(p.WordsIn == "" || wire.Token(p.WordsIn), "words_in", "%q is no header name", p.WordsIn)
	for i, m := range p.Markers {
		wrong.check((m.Member == "") != (m.Name == "") && (m.Name == "" || wire.Token(m.Name)),
			fmt.Sprintf("markers.%d", i), "%q is neither a header name nor a member", m.Name)
	}
	return wrong.err()
}

// read sets the profile's view of a response: an error with the status of a success, and the part of its body that
// belongs to the operation.
func (p Profile) read(a *answer) {
	if a.err != nil {
		return
	}
	if p.FailsWith2xx && a.status < 300 {
		a.failed = len(p.wordsOf(a)) > 0
	}
	if doc := withoutMembers(a.content(), p.Envelope); doc != nil {
		a.own = doc
	}
}

// wordsOf returns the API's words in a response.
func (p Profile) wordsOf(a *answer) []string {
	var words []string
	for _, path := range p.WordsAt {
		if v, err := valueAt(a.plainBody(), path); err == nil && v != nil {
			words = append(words, fmt.Sprint(v))
		}
	}
	return append(words, a.header.Values(p.WordsIn)...)
}

// code returns the code of an error: redo's, or the one with the API's word.
func (p Profile) code(a *answer) taxonomy.Code {
	if c := a.code(); c != "" || a.err != nil || a.ok() {
		return c
	}
	found := p.wordsOf(a)
	for code, word := range p.Words {
		if slices.Contains(found, word) {
			return code
		}
	}
	return ""
}

// word returns the text of a code in this API.
func (p Profile) word(c taxonomy.Code) string {
	if w := p.Words[c]; w != "" {
		return w
	}
	return string(c)
}

// requires reports whether the profile requires the code.
func (p Profile) requires(c taxonomy.Code) bool {
	return p.Codes && (len(p.Words) == 0 || p.Words[c] != "")
}

// marked reports whether a response is marked as a replay, by a marker of the profile or by a well-known one.
func (p Profile) marked(a *answer) bool { return p.declares(a) || taxonomy.Replayed(a.header) }

// declares reports whether a response has one of the profile's own markers.
func (p Profile) declares(a *answer) bool {
	return slices.ContainsFunc(p.Markers, func(m Marker) bool { return m.in(a) })
}

// has reports whether a refusal has one of the statuses. An error with the status of a success has any. An empty list
// has all: the API does not document the status.
func has(statuses []int, a *answer) bool {
	return a.err == nil && (a.failed || slices.Contains(statuses, a.status) || len(statuses) == 0 && a.refused())
}

// inFlight reports whether the response refuses a duplicate because the first request is still running. If a
// mismatch has the same status, the code distinguishes them. A response without a code may be either.
func (p Profile) inFlight(a *answer) bool { return has(p.InFlight, a) && p.mayBe(a, taxonomy.InFlight) }

// maybeRunning is like inFlight, but it also accepts a status that the profile does not list for this refusal.
func (p Profile) maybeRunning(a *answer) bool {
	return p.inFlight(a) || a.err == nil && slices.Contains(runningStatuses, a.status) && p.mayBe(a, taxonomy.InFlight)
}

var runningStatuses = []int{http.StatusConflict, http.StatusLocked, http.StatusTooEarly}

// mismatch reports whether the response refuses another payload.
func (p Profile) mismatch(a *answer) bool {
	return has(p.Mismatch, a) && p.mayBe(a, taxonomy.PayloadMismatch)
}

// mayBe reports whether the response has the given code, or has none of the codes for keys. An error with the status of
// a success has only its code.
func (p Profile) mayBe(a *answer, code taxonomy.Code) bool {
	c := p.code(a)
	return c == code || !c.In(keyConflicts) && !a.failed
}

// keyConflicts is the common prefix of the codes for conflicts about keys.
const keyConflicts = taxonomy.Conflict + ".idempotency"
