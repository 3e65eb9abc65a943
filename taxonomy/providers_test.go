package taxonomy

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A providerVector is one row of testdata/providers.json: a documented response of a real API.
type providerVector struct {
	API         string
	Source      string
	Name        string
	Status      int
	Headers     map[string]string
	Body        json.RawMessage
	Codes       map[string]Code
	StatusCodes map[int]Code `json:"status_codes"`
	Markers     []string
	Directives  []string
	Want        struct {
		Code   Code
		Class  string
		Effect string
		Hint   string
		Final  bool
	}
}

type providerFile struct{ Vectors, Benign []providerVector }

func readProviders(t *testing.T) providerFile {
	t.Helper()
	raw, err := os.ReadFile("testdata/providers.json")
	require.NoError(t, err)
	var file providerFile
	require.NoError(t, json.Unmarshal(raw, &file))
	return file
}

func (v providerVector) title() string { return v.API + ": " + v.Name }

func (v providerVector) answer(t *testing.T) Answer {
	t.Helper()
	a := Answer{
		Sent: true, Status: v.Status, Header: http.Header{}, Body: v.Body,
		Codes: v.Codes, StatusCodes: v.StatusCodes, Markers: v.Markers, Directives: DefaultDirectives,
	}
	if v.Directives != nil {
		a.Directives = v.Directives
	}
	for name, value := range v.Headers {
		a.Header.Set(name, value)
	}
	switch {
	case bytes.HasPrefix(v.Body, []byte{'"'}):
		var text string
		require.NoError(t, json.Unmarshal(v.Body, &text))
		a.Body = []byte(text)
	case a.Body != nil && a.Header.Get("Content-Type") == "":
		a.Header.Set("Content-Type", "application/json")
	}
	return a
}

func (v providerVector) requireVerdict(t *testing.T) {
	t.Helper()
	got := Classify(v.answer(t))
	require.Equal(t, v.Want.Code, got.Code, "code")
	require.Equal(t, v.Want.Class, got.Class.String(), "class")
	require.Equal(t, v.Want.Effect, got.Effect.String(), "effect")
	require.Equal(t, v.Want.Hint, got.Hint(), "hint")
	require.Equal(t, v.Want.Final, got.Final, "final")
}

func TestEveryProvidersResponse(t *testing.T) {
	for _, v := range readProviders(t).Vectors {
		t.Run(v.title(), v.requireVerdict)
	}
}

// TestOrdinaryRefusalsStayNotApplied is the other side: the same APIs, and nothing that contradicts a refusal.
func TestOrdinaryRefusalsStayNotApplied(t *testing.T) {
	for _, v := range readProviders(t).Benign {
		t.Run(v.title(), func(t *testing.T) {
			v.requireVerdict(t)
			require.Equal(t, "not applied", v.Want.Effect)
			require.Equal(t, "terminal", v.Want.Class)
		})
	}
}

func TestProvidersHavePublicSources(t *testing.T) {
	file := readProviders(t)
	all := append(file.Vectors, file.Benign...)
	apis, titles := map[string]bool{}, map[string]bool{}
	for _, v := range all {
		source, err := url.Parse(v.Source)
		require.NoError(t, err, v.title())
		require.Equal(t, "https", source.Scheme, v.title())
		require.NotEmpty(t, source.Host, v.title())
		require.NotContains(t, titles, v.title())
		apis[v.API], titles[v.title()] = true, true
	}
	require.GreaterOrEqual(t, len(file.Vectors), 40)
	require.GreaterOrEqual(t, len(apis), 20)
}

// TestEverySharedWordHasAResponse keeps words without a source out of the table. A response proves a word if hiding
// the word changes its verdict.
func TestEverySharedWordHasAResponse(t *testing.T) {
	file := readProviders(t)
	for word, code := range sharedCodes {
		proved := false
		for _, v := range file.Vectors {
			a := v.answer(t)
			if a.Codes == nil && v.Want.Code == code && usesWord(a, word) {
				proved = true
				break
			}
		}
		require.True(t, proved, "%s has no response in testdata/providers.json", word)
	}
}

// usesWord reports whether the verdict changes when a word of the shared table is hidden.
func usesWord(a Answer, word string) bool {
	hidden := a
	hidden.Codes = map[string]Code{word: ""}
	return Classify(hidden) != Classify(a)
}

// TestNoStatusOutweighsAnUncertainWord pairs each word for "running", "expired" or "uncertain" with every status.
func TestNoStatusOutweighsAnUncertainWord(t *testing.T) {
	for word, code := range sharedCodes {
		if !code.In(InFlight) && !code.In(OutcomeUnknown) && !code.In(KeyExpired) && !code.In(Timeout) {
			continue
		}
		member := "code"
		if rest, ok := strings.CutPrefix(word, adyenErrorCode); ok {
			member, word = "errorCode", rest
		}
		body, err := json.Marshal(map[string]string{member: word})
		require.NoError(t, err)
		for status := 400; status < 600; status++ {
			for _, directive := range []string{"", "true", "false"} {
				v := Classify(Answer{
					Status: status, Body: body, Directives: DefaultDirectives,
					Header: http.Header{"X-Should-Retry": {directive}},
				})
				require.Equal(t, EffectUnknown, v.Effect, "%s under %d", word, status)
			}
		}
	}
}
