package script

import (
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/servertest"
)

// serve starts a server with the scripts, and returns what it says was not played: the scripts as it has understood
// them.
func serve(t *testing.T, texts ...string) []string {
	t.Helper()
	opts, err := Language{}.Parse(texts...)
	require.NoError(t, err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	srv, err := servertest.Serve(l, nil, opts...)
	require.NoError(t, err)
	srv.Close()
	return srv.Unplayed()
}

func TestScriptsAreUnderstood(t *testing.T) {
	for _, c := range []struct {
		text string
		want []string
	}{
		{"k1: 503, ok", []string{`key "k1", step 1, Status(503)`, `key "k1", step 2, OK()`}},
		{`k1:503;k2:ok`, []string{`key "k1", step 1, Status(503)`, `key "k2", step 1, OK()`}},
		{"# none\n\n k1 : duplicate \n", []string{`key "k1", step 1, Duplicate()`}},
		{`"a:b;c,d": 418`, []string{`key "a:b;c,d", step 1, Status(418)`}},
		{`"*": 418`, []string{`key "*", step 1, Status(418)`}},
		{"-: 418", []string{`key "", step 1, Status(418)`}},
		{"next: 418", []string{"ScriptNext 1"}},
		{"*: 418", []string{"ScriptEach"}},
		{`k: redirect(307, https://example.com/a;b)`,
			[]string{`key "k", step 1, Redirect(307, "https://example.com/a;b")`}},
	} {
		t.Run(c.text, func(t *testing.T) {
			got := serve(t, c.text)
			require.Len(t, got, len(c.want))
			for i := range c.want {
				require.True(t, strings.HasPrefix(got[i], c.want[i]+":"), "%q is not %q", got[i], c.want[i])
			}
		})
	}
}

func TestWrongScriptsAreRefused(t *testing.T) {
	for text, want := range map[string]string{
		"":                        `script "": it has no faults`,
		" # none\n ; \n":          "it has no faults",
		"k1":                      "write it as key: fault, fault",
		"a:b: 503":                "put a key with a colon in quotation marks",
		": 503":                   "the key is missing before the colon",
		`"": 503`:                 "- are the requests without one",
		"k:":                      `there is no fault ""`,
		"k: explode":              `there is no fault "explode", there are ok, status`,
		"k: delay":                "it is written delay(DURATION)",
		"k: delay(1s":             "no closing parenthesis",
		"k: ok(1)":                "it is written ok",
		"k: truncated-body(some)": `"some" is no whole number`,
		"k: slow-body(later)":     `"later" is no duration`,
		"k: redirect(there, /)":   "the status is no number",
	} {
		t.Run(text, func(t *testing.T) {
			_, err := Language{}.Parse(text)
			require.ErrorContains(t, err, want)
		})
	}
}

func TestEveryWordMakesItsFault(t *testing.T) {
	samples := map[string]string{"CODE": "502", "CODE,URL": "307, /x", "DURATION": "20ms", "SECONDS": "2", "BYTES": "3"}
	seen := map[string]bool{}
	for _, w := range words {
		text := w.name
		if w.args != "" {
			require.Contains(t, samples, w.args)
			text += "(" + samples[w.args] + ")"
		}
		f, err := Language{}.Fault(text)
		require.NoError(t, err)
		// servertest writes the same words without hyphens.
		name, _, _ := strings.Cut(f.String(), "(")
		require.Equal(t, strings.ReplaceAll(w.name, "-", ""), strings.ToLower(name), "%s", f)
		require.False(t, seen[name], "%s is there twice", name)
		seen[name] = true
		require.Contains(t, Language{}.Help(), fmt.Sprintf("  %s ", w))
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{"k1: reset-after-effect, 503, ok", `"a:b": delay(2s); *: ok`,
		"next: redirect(307, /x)",
		"((:)"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		opts, err := Language{}.Parse(text)
		if err == nil && len(opts) == 0 {
			t.Errorf("%q makes neither a script nor an error", text)
		}
	})
}
