package profile_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"testing"

	"github.com/redo-go/redo"
	"github.com/redo-go/redo/taxonomy"
)

// A documented response of an API, and its meaning. The kinds are:
//   - retried: the response is followed by a success, under the same key.
//   - terminal: the call ends with the code and the effect.
//   - benign: the same, for a response that resembles one about a key and is none.
//   - accepted: a success that mentions keys or errors, and is a success.
type documented struct {
	Kind   string
	API    string
	Name   string
	Status int
	Header map[string]string
	Body   json.RawMessage // a JSON string means its text
	Code   taxonomy.Code
	Effect string
}

// text returns the body as it is sent.
func (d documented) text() string {
	var text string
	if json.Unmarshal(d.Body, &text) == nil {
		return text
	}
	return string(d.Body)
}

// responses reads testdata/responses.json.
func responses(t *testing.T) []documented {
	t.Helper()
	raw, err := os.ReadFile("testdata/responses.json")
	if err != nil {
		t.Fatal(err)
	}
	var list []documented
	if err := json.Unmarshal(raw, &list); err != nil {
		t.Fatal(err)
	}
	return list
}

func TestDocumentedResponses(t *testing.T) {
	for _, d := range responses(t) {
		t.Run(d.Kind+"/"+d.API+"/"+d.Name, func(t *testing.T) {
			p, ok := profiles[d.API]
			if !ok {
				t.Fatalf("no profile has the name %q", d.API)
			}
			s := newScripted(t, p.profile, d)
			err := s.call(t)
			switch d.Kind {
			case "retried":
				s.wantRetried(t, err, d)
			case "terminal", "benign":
				s.wantError(t, err, d)
			case "accepted":
				if n := len(s.received()); err != nil || n != 1 {
					t.Errorf("%d requests, and the error %v; want one and none", n, err)
				}
			default:
				t.Errorf("the kind is %q", d.Kind)
			}
		})
	}
}

func (s *scripted) wantRetried(t *testing.T, err error, d documented) {
	t.Helper()
	if err != nil {
		t.Fatalf("got %v, it must be retried", err)
	}
	requests, attempts := s.received(), s.report.Attempts()
	if len(requests) != 2 || len(attempts) != 2 || attempts[0].Code != d.Code {
		t.Fatalf("%d requests, attempts %+v; want two, and the first to be %s", len(requests), attempts, d.Code)
	}
	if a, b := requests[0].key(s.api), requests[1].key(s.api); a != b {
		t.Errorf("the keys were %q and %q", a, b)
	}
}

func (s *scripted) wantError(t *testing.T, err error, d documented) {
	t.Helper()
	e, ok := errors.AsType[*redo.Error](err)
	if !ok {
		t.Fatalf("got %v, want %s", err, d.Code)
	}
	if n := len(s.received()); e.Code != d.Code || e.Effect.String() != d.Effect || n != 1 {
		t.Errorf("got %s, %s, %d requests; want %s, %s, one", e.Code, e.Effect, n, d.Code, d.Effect)
	}
}

// TestResponsesCoverTheProfiles wants two responses for each API: one that is retried or terminal, and one that is
// benign or accepted. A benign one is never about a key.
func TestResponsesCoverTheProfiles(t *testing.T) {
	kinds := map[string]map[string]bool{}
	for _, d := range responses(t) {
		if kinds[d.API] == nil {
			kinds[d.API] = map[string]bool{}
		}
		kinds[d.API][d.Kind] = true
		if d.Kind == "benign" && (d.Code.In("CONFLICT.idempotency") || d.Code.In("VALIDATION.idempotency_key")) {
			t.Errorf("%s, %s: a benign response has the code %s", d.API, d.Name, d.Code)
		}
		if d.Status < http.StatusOK {
			t.Errorf("%s, %s: the status is %d", d.API, d.Name, d.Status)
		}
	}
	for name := range profiles {
		if k := kinds[name]; !k["retried"] && !k["terminal"] {
			t.Errorf("%s: no response about a key or a limit", name)
		} else if !k["benign"] && !k["accepted"] {
			t.Errorf("%s: no benign response", name)
		}
	}
}
