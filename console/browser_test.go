package console_test

import (
	"bytes"
	"context"
	"encoding/json"
	"html"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/store"
)

// chromium returns the browser: REDO_TEST_CHROMIUM, or the first on PATH.
func chromium(t *testing.T) string {
	t.Helper()
	names := []string{"chromium", "chromium-browser", "google-chrome", "chrome"}
	if name := os.Getenv("REDO_TEST_CHROMIUM"); name != "" {
		names = []string{name}
	}
	for _, name := range names {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	if os.Getenv("REDO_TEST_REQUIRE") == "1" {
		t.Fatalf("REDO_TEST_REQUIRE is set, and none of %v is on PATH", names)
	}
	t.Skipf("none of %v is on PATH; REDO_TEST_CHROMIUM names a browser", names)
	return ""
}

// browse opens testdata/harness.html beside the console, and returns what it found wrong and how many clicks it made.
// The harness shows pages in frames. So only here the console's pages may be framed. change edits the stylesheet.
func browse(t *testing.T, r *rig, change func(css string) string) (broken []string, clicks int) {
	t.Helper()
	browser, dir := chromium(t), t.TempDir()
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
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, browser,
		"--headless", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
		"--disable-component-update", "--disable-sync", "--disable-default-apps", "--disable-extensions",
		"--no-sandbox", // it refuses to run as root with one, and the test serves all that it opens
		"--disable-dev-shm-usage", "--user-data-dir="+filepath.Join(dir, "profile"),
		"--enable-logging=stderr", "--virtual-time-budget=60000", "--dump-dom", srv.URL+"/harness")
	cmd.Env = append(os.Environ(), "HOME="+dir, "XDG_CONFIG_HOME="+dir, "XDG_CACHE_HOME="+dir)
	cmd.WaitDelay = 5 * time.Second
	var out, log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &log
	require.NoError(t, cmd.Run(), log.String())
	m := regexp.MustCompile(`<pre id="result">(.+?)</pre>`).FindSubmatch(out.Bytes())
	require.NotNil(t, m, "the harness did not end:\n%s", log.String())
	var result struct {
		Broken []string
		Clicks int
	}
	require.NoError(t, json.Unmarshal([]byte(html.UnescapeString(string(m[1]))), &result))
	for line := range strings.Lines(log.String()) {
		if strings.Contains(line, "CONSOLE") { // such as what the policy refuses
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
