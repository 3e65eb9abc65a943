package conformance

import (
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/redo-go/redo/internal/wire"
	"github.com/redo-go/redo/taxonomy"
)

// A Profile is one house's way to answer: they differ legitimately. A custom one stands in the target's file. The zero
// value is invalid.
type Profile struct {
	// Name is for reports.
	Name string `json:"name"`
	// Mismatch are the statuses of a key that was used for another payload.
	Mismatch []int `json:"mismatch"`
	// MissingKey are the statuses of a request without the key that it needs.
	MissingKey []int `json:"missing_key"`
	// MalformedKey are the statuses of a key that can't be read.
	MalformedKey []int `json:"malformed_key"`
	// InFlight are the statuses of a duplicate of a request that is still running. Waiting for it is always allowed.
	InFlight []int `json:"in_flight"`
	// MaxKey is how many bytes a key may have where the target does not say. Zero: the house publishes no length.
	MaxKey int `json:"max_key,omitempty"`
	// ServerErrors says what a retry of a request gets that ended in a 5xx: Replayed, Executed or, the default, Either.
	ServerErrors AfterError `json:"server_errors,omitempty"`
	// Markers are the headers of which a replay has to have one. Empty: a replay need not be marked.
	Markers []Marker `json:"markers,omitempty"`
	// Problems says that errors are problem documents (RFC 9457) or have a Link.
	Problems bool `json:"problems,omitempty"`
	// Codes says that errors have redo's codes, in the Error-Code header or in the problem document.
	Codes bool `json:"codes,omitempty"`
	// BothForms says that a key means the same with and without quotation marks.
	BothForms bool `json:"both_forms,omitempty"`
	// Query says that another query is another payload.
	Query bool `json:"query,omitempty"`
	// MismatchFirst says that another payload is refused as such while the first request is still running.
	MismatchFirst bool `json:"mismatch_first,omitempty"`
}

// A Marker is a header that tells a replay from a first answer. An empty value means any.
type Marker struct {
	Name  string `json:"name"`
	Value string `json:"value,omitempty"`
}

// An AfterError says what becomes of a key whose request ended in a 5xx.
type AfterError string

// The ways to treat a 5xx.
const (
	Either   AfterError = ""
	Replayed AfterError = "replay"  // the 5xx is the key's answer for good
	Executed AfterError = "execute" // the retry runs
)

// Profiles returns the profiles that can be named: redo (the project's contract), ietf
// (draft-ietf-httpapi-idempotency-key-header-07) and stripe (what Stripe documents).
func Profiles() []Profile {
	replayed := Marker{Name: "Idempotent-Replayed", Value: "true"}
	return []Profile{{
		Name:   "redo",
		MaxKey: 255,
		// 422 is the contract's other choice.
		Mismatch:      []int{http.StatusConflict, http.StatusUnprocessableEntity},
		MissingKey:    []int{http.StatusBadRequest},
		MalformedKey:  []int{http.StatusBadRequest},
		InFlight:      []int{http.StatusConflict, http.StatusTooEarly},
		ServerErrors:  Executed,
		Markers:       []Marker{replayed},
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
		// The draft says 409; 425 says the same to a client that knows RFC 8470.
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
	}}
}

// profileNamed returns one of Profiles.
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
		wrong = append(wrong, fmt.Errorf("the profile's server_errors is %q, it can be %q, %q or left out", p.ServerErrors, Replayed, Executed))
	}
	for _, m := range p.Markers {
		if !wire.Token(m.Name) {
			wrong = append(wrong, fmt.Errorf("the profile's marker %q is no header name", m.Name))
		}
	}
	return errors.Join(wrong...)
}

// marked reports whether the header marks a replay: by a marker of the profile, or by one that is known in the field.
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

// inFlight reports whether the answer refuses a duplicate because the first request is still running. Where a
// mismatch has the same status the code tells them apart; an answer without a code may be either.
func (p Profile) inFlight(a *answer) bool {
	return a.err == nil && slices.Contains(p.InFlight, a.status) && a.mayBe(taxonomy.InFlight)
}

// mismatch reports whether the answer refuses another payload.
func (p Profile) mismatch(a *answer) bool {
	return a.err == nil && slices.Contains(p.Mismatch, a.status) && a.mayBe(taxonomy.PayloadMismatch)
}

// mayBe reports whether the answer's code is this one, or is none of those that redo has for keys.
func (a *answer) mayBe(code taxonomy.Code) bool {
	c := a.code()
	return c == code || !c.In(keyConflicts)
}

// keyConflicts is what the codes of conflicts about keys have in common.
const keyConflicts = taxonomy.Conflict + ".idempotency"

// says reports whether the answer's code is this one.
func (a *answer) says(code taxonomy.Code) bool { return a.code() == code }
