// Package browsertest looks at pages in a real browser.
package browsertest

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// Dump opens a URL in headless Chromium and returns the page's elements, as its scripts leave them, and the browser's
// log. The test is skipped if there is no browser, and fails then if REDO_TEST_REQUIRE is 1.
func Dump(t testing.TB, url string, flags ...string) (elements, log string) {
	t.Helper()
	dir := t.TempDir()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	flags = append([]string{
		"--headless", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
		"--disable-component-update", "--disable-sync", "--disable-default-apps", "--disable-extensions",
		"--no-sandbox", // root and most containers have none, and the tests serve all that is opened
		"--disable-dev-shm-usage", "--user-data-dir=" + filepath.Join(dir, "profile"), "--enable-logging=stderr",
		"--virtual-time-budget=60000", // milliseconds that the page's timers may take
	}, flags...)
	cmd := exec.CommandContext(ctx, chromium(t), append(flags, "--dump-dom", url)...)
	cmd.Env = append(os.Environ(), "HOME="+dir, "XDG_CONFIG_HOME="+dir, "XDG_CACHE_HOME="+dir)
	cmd.WaitDelay = 5 * time.Second
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		t.Fatalf("the browser: %v\n%s", err, errs.String())
	}
	return out.String(), errs.String()
}

// chromium returns the browser: REDO_TEST_CHROMIUM, or the first on PATH.
func chromium(t testing.TB) string {
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
		t.Fatalf("REDO_TEST_REQUIRE is 1, and none of %v is on PATH", names)
	}
	t.Skipf("none of %v is on PATH; REDO_TEST_CHROMIUM names a browser", names)
	return ""
}
