package profile_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/redo-go/redo"
	"github.com/redo-go/redo/taxonomy"
)

// documentedLimits are the limits that the sources name. Zero is undocumented. The methods are those whose requests
// get a key in the header; the draft and some APIs name none, so redo's default counts.
var documentedLimits = map[string]struct {
	maxKey    int
	retention time.Duration
	methods   string
}{
	"acp":         {0, 24 * time.Hour, "POST"},
	"adcp":        {0, time.Hour, ""},
	"adyen":       {64, 7 * 24 * time.Hour, "POST"},
	"aws":         {64, 10 * time.Minute, ""},
	"azure":       {36, 5 * time.Minute, "POST PATCH"},
	"checkoutcom": {0, 24 * time.Hour, "POST"},
	"echopro":     {0, 24 * time.Hour, "POST PATCH"},
	"formance":    {0, 0, "POST DELETE"},
	"github":      {0, 0, ""},
	"gitlab":      {0, 0, ""},
	"iceberg":     {36, 0, "POST DELETE"},
	"ietf":        {0, 0, "POST PATCH"},
	"mollie":      {0, time.Hour, "POST"},
	"paypal":      {78, 3 * time.Hour, "POST"},
	"shopify":     {0, 24 * time.Hour, ""},
	"square":      {45, 0, ""},
	"stripe":      {0, 0, "POST"},
	"twilio":      {0, 0, "POST PATCH"},
	"ucp":         {36, 24 * time.Hour, "POST PUT"},
}

func TestRetentionsAreTheDocumentedOnes(t *testing.T) {
	for name, p := range profiles {
		if got, want := p.profile.Retention, documentedLimits[name].retention; got != want {
			t.Errorf("%s: the retention is %v, want %v", name, got, want)
		}
	}
}

func TestALongerKeyThanDocumentedIsNotSent(t *testing.T) {
	for name, p := range profiles {
		if p.profile.NoKeys {
			continue
		}
		longest := documentedLimits[name].maxKey
		if longest == 0 {
			longest = 255
		}
		s := newScripted(t, p.profile, documented{Status: http.StatusOK})
		if err := s.send(t, http.MethodPost, strings.Repeat("k", longest)); err != nil {
			t.Errorf("%s: a key of %d characters: %v", name, longest, err)
		}
		err := s.send(t, http.MethodPost, strings.Repeat("k", longest+1))
		if n := len(s.received()); !errors.Is(err, taxonomy.KeyMalformed) || n != 1 {
			t.Errorf("%s: a key of %d characters: %v, and %d requests in all", name, longest+1, err, n)
		}
	}
}

func TestOnlyTheDocumentedMethodsGetAKey(t *testing.T) {
	for name, p := range profiles {
		if p.profile.KeyInBody {
			continue
		}
		var keyed []string
		for _, method := range []string{"POST", "PATCH", "PUT", "DELETE", "GET"} {
			s := newScripted(t, p.profile, documented{Status: http.StatusOK})
			if err := s.send(t, method, ""); err != nil {
				t.Errorf("%s: %s: %v", name, method, err)
			} else if s.received()[0].key(p.profile) != "" {
				keyed = append(keyed, method)
			}
		}
		if got := strings.Join(keyed, " "); got != documentedLimits[name].methods {
			t.Errorf("%s: a key goes with %q, want %q", name, got, documentedLimits[name].methods)
		}
	}
}

// send sends one request, with the key if there is one.
func (s *scripted) send(t *testing.T, method, key string) error {
	t.Helper()
	ctx := t.Context()
	if key != "" {
		ctx = redo.WithKey(ctx, key)
	}
	req, err := http.NewRequestWithContext(ctx, method, s.url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := s.client.Do(req)
	if err != nil {
		return err
	}
	return resp.Body.Close()
}
