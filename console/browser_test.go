package console_test

import (
	"encoding/json"
	"html"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/internal/browsertest"
	"github.com/redo-go/redo/store"
)

// browse opens testdata/harness.html beside the console, and returns the faults that it found and the number of
// its clicks. The harness shows pages in frames. So only here the console's pages may be framed. change edits the
// stylesheet.
func browse(t *testing.T, r *rig, change func(css string) string) (broken []string, clicks int) {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("/harness", func(w http.ResponseWriter, req *http.Request) {
		http.ServeFile(w, req, "testdata/harness.html")
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, req *http.Request) {
		page := httptest.NewRecorder()
		r.console.ServeHTTP(page, req)
		for name, values := range page.Header() {
			w.Header()[name] = values
		}
		w.Header().Del("X-Frame-Options")
		w.Header().Del("Content-Length")
		policy := page.Header().Get("Content-Security-Policy")
		policy = strings.Replace(policy, "frame-ancestors 'none'", "frame-ancestors 'self'", 1)
		w.Header().Set("Content-Security-Policy", policy)
		w.WriteHeader(page.Code)
		body := page.Body.String()
		if req.URL.Path == "/style.css" {
			body = change(body)
		}
		_, _ = w.Write([]byte(body))
	})
	srv := httptest.NewServer(mux)
	t.Cleanup(srv.Close)
	elements, log := browsertest.Dump(t, srv.URL+"/harness")
	m := regexp.MustCompile(`<pre id="result">(.+?)</pre>`).FindStringSubmatch(elements)
	require.NotNil(t, m, "the harness did not end:\n%s", log)
	var result struct {
		Broken []string
		Clicks int
	}
	require.NoError(t, json.Unmarshal([]byte(html.UnescapeString(m[1])), &result))
	for line := range strings.Lines(log) {
		if strings.Contains(line, "CONSOLE") { // such as a load that the policy refuses
			result.Broken = append(result.Broken, strings.TrimSpace(line))
		}
	}
	return result.Broken, result.Clicks
}

func TestBrowserShowsThePagesAndSettlesInFourClicks(t *testing.T) {
	r := newRig(t)
	broken, clicks := browse(t, r, func(css string) string { return css })
	require.Empty(t, broken)
	require.Positive(t, clicks)
	require.LessOrEqual(t, clicks, 4)
	require.Equal(t, store.StateComplete, r.state("refund:unknown"))
	require.Equal(t, "ana", r.act().Author)
}

func TestBrowserCheckFindsWhatIsWrong(t *testing.T) {
	for want, change := range map[string]func(string) string{
		"./ 360 light: it scrolls sideways": func(css string) string { return css + "main { width: 1000px; }" },
		"./ 1280 dark: the paper is not dark": func(css string) string {
			return strings.ReplaceAll(css, "prefers-color-scheme", "prefers-none")
		},
		"letters 360 light: the paper is not l": func(css string) string { return css + "body { background: #000; }" },
	} {
		broken, _ := browse(t, newRig(t), change)
		require.Contains(t, strings.Join(broken, "\n"), want)
	}
}
