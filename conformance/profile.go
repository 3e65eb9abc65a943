package conformance

import (
	"errors"
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
	// Mismatch lists the statuses for a key that was used with another payload.
	Mismatch []int `json:"mismatch"`
	// MissingKey lists the statuses for a request without a required key.
	MissingKey []int `json:"missing_key"`
	// MalformedKey lists the statuses for an unreadable key.
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
	// Problems requires that errors are problem documents (RFC 9457) or have a Link.
	Problems bool `json:"problems,omitempty"`
	// Codes requires that errors have redo's codes, in the Error-Code header or in the problem document.
	Codes bool `json:"codes,omitempty"`
	// BothForms requires that a key is the same with and without quotation marks.
	BothForms bool `json:"both_forms,omitempty"`
	// Query includes the query in the payload.
	Query bool `json:"query,omitempty"`
	// MismatchFirst requires that another payload is refused as a mismatch even while the first request is running.
	MismatchFirst bool `json:"mismatch_first,omitempty"`
}

// Marker is a header that distinguishes a replay from a first response. An empty value matches any value.
type Marker struct {
	Name  string `json:"name"`
	Value string `json:"value,omitempty"`
}

// AfterError is the treatment of a key whose request ended in a 5xx.
type AfterError string

// These are the treatments of a 5xx.
const (
	Either   AfterError = ""
	Replayed AfterError = "replay"  // the 5xx is the key's permanent response
	Executed AfterError = "execute" // the retry runs
)

// Profiles returns the named profiles: redo (the project's contract), ietf
// (draft-ietf-httpapi-idempotency-key-header-07) and stripe (Stripe's documentation).
func Profiles() []Profile {
	replayed := Marker{Name: "Idempotent-Replayed", Value: "true"}
	return []Profile{{
		Name:   "redo",
		MaxKey: 255,
		// The contract also allows 422.
		Mismatch:      []int{http.StatusConflict, http.StatusUnprocessableEntity},
		MissingKey:    []int{http.StatusBadRequest},
		MalformedKey:  []int{http.StatusBadRequest},
		InFlight:      []int{http.StatusConflict, http.StatusTooEarly},
		ServerErrors:  Executed,
		Markers:       []Marker{replayed},
		ExactStatus:   true,
		ExactHeaders:  true,
		Problems:      true,
		Codes:         true,
		BothForms:     true,
		Query:         true,
		MismatchFirst: true,
	}, {
		Name:         "ietf",
		Mismatch:     []int{http.StatusUnprocessableEntity},
		MissingKey:   []int{http.StatusBadRequest},
		MalformedKey: []int{http.StatusBadRequest},
		// The draft requires 409. A client that knows RFC 8470 treats 425 the same way.
		InFlight: []int{http.StatusConflict, http.StatusTooEarly},
		Problems: true,
	}, {
		Name:         "stripe",
		Mismatch:     []int{http.StatusBadRequest},
		MissingKey:   []int{http.StatusBadRequest},
		MalformedKey: []int{http.StatusBadRequest},
		InFlight:     []int{http.StatusConflict, http.StatusTooEarly},
		ServerErrors: Replayed,
		Markers:      []Marker{replayed},
		ExactStatus:  true, // "the resulting status code and body of the first request"
	}}
}

// ours returns the profile with redo's own rules, for a server that sends redo's headers.
func (p Profile) ours() Profile {
	p.ExactStatus, p.ExactHeaders, p.Codes = true, true, true
	p.BothForms, p.Query, p.MismatchFirst = true, true, true
	if redo, _ := profileNamed("redo"); p.Name == "ietf" {
		p.Mismatch = slices.Concat(p.Mismatch, redo.Mismatch)
	}
	return p
}

// profileNamed returns the profile of Profiles with the given name.
func profileNamed(name string) (Profile, bool) {
	all := Profiles()
	i := slices.IndexFunc(all, func(p Profile) bool { return p.Name == name })
	if i < 0 {
		return Profile{}, false
	}
	return all[i], true
}

func (p Profile) validate() error {
	var wrong []error
	for _, list := range []struct {
		name     string
		statuses []int
	}{
		{"mismatch", p.Mismatch}, {"missing_key", p.MissingKey}, {"malformed_key", p.MalformedKey}, {"in_flight", p.InFlight},
	} {
		if len(list.statuses) == 0 {
			wrong = append(wrong, fmt.Errorf("the profile's %s names no status", list.name))
		}
		for _, s := range list.statuses {
			if s < 400 || s > 499 {
				wrong = append(wrong, fmt.Errorf("the profile's %s names %d, which is no status of a client error", list.name, s))
			}
		}
	}
	switch p.ServerErrors {
	case Either, Replayed, Executed:
	default:
		wrong = append(wrong, fmt.Errorf("the profile's server_errors is %q, it can be %q, %q or left out",
			p.ServerErrors, Replayed, Executed))
	}
	for _, m := range p.Markers {
		if !wire.Token(m.Name) {
			wrong = append(wrong, fmt.Errorf("the profile's marker %q is no header name", m.Name))
		}
	}
	return errors.Join(wrong...)
}

// marked reports whether the header marks a replay, by a marker of the profile or by a well-known one.
func (p Profile) marked(h http.Header) bool {
	return p.declares(h) || taxonomy.Replayed(h)
}

// declares reports whether the header has one of the profile's own markers.
func (p Profile) declares(h http.Header) bool {
	for _, m := range p.Markers {
		for _, v := range h.Values(m.Name) {
			if m.Value == "" || m.Value == v {
				return true
			}
		}
	}
	return false
}

// inFlight reports whether the response refuses a duplicate because the first request is still running. If a
// mismatch has the same status, the code distinguishes them. A response without a code may be either.
func (p Profile) inFlight(a *answer) bool {
	return a.err == nil && slices.Contains(p.InFlight, a.status) && a.mayBe(taxonomy.InFlight)
}

// maybeRunning is like inFlight, but it also accepts a status that the profile does not list for this refusal.
func (p Profile) maybeRunning(a *answer) bool {
	return p.inFlight(a) || a.err == nil && slices.Contains(runningStatuses, a.status) && a.mayBe(taxonomy.InFlight)
}

var runningStatuses = []int{http.StatusConflict, http.StatusLocked, http.StatusTooEarly}

// mismatch reports whether the response refuses another payload.
func (p Profile) mismatch(a *answer) bool {
	return a.err == nil && slices.Contains(p.Mismatch, a.status) && a.mayBe(taxonomy.PayloadMismatch)
}

// mayBe reports whether the response has the given code, or has none of redo's codes for keys.
func (a *answer) mayBe(code taxonomy.Code) bool {
	c := a.code()
	return c == code || !c.In(keyConflicts)
}

// keyConflicts is the common prefix of the codes for conflicts about keys.
const keyConflicts = taxonomy.Conflict + ".idempotency"

// says reports whether the response has the given code.
func (a *answer) says(code taxonomy.Code) bool { return a.code() == code }
