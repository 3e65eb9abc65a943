package servertest_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/redo-go/redo/servertest"
	"github.com/stretchr/testify/require"
)

// servers are the two kinds of server. Both keep the same rules.
var servers = map[string]func(testing.TB, ...servertest.Option) *servertest.Server{
	"socket": servertest.New,
	"memory": servertest.NewInMemory,
}

// onBoth runs a test against both kinds.
func onBoth(t *testing.T, test func(t *testing.T, start func(testing.TB, ...servertest.Option) *servertest.Server)) {
	for name, start := range servers {
		t.Run(name, func(t *testing.T) { test(t, start) })
	}
}

// post sends one request, without a key when key is empty.
func post(t testing.TB, c *http.Client, url, key string) (*http.Response, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(`{"charge":"ch_9ab"}`))
	require.NoError(t, err)
	if key != "" {
		req.Header.Set("Idempotency-Key", key)
	}
	return c.Do(req)
}

// answerTo sends one request and returns the status and the body that must come.
func answerTo(t testing.TB, srv *servertest.Server, key string) (int, string) {
	t.Helper()
	resp, err := post(t, srv.Client(), srv.URL, key)
	require.NoError(t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp.StatusCode, strings.TrimSpace(string(body))
}

// A fakeTB records the calls of a server on its test, and runs the cleanups when the test calls end.
type fakeTB struct {
	testing.TB
	mu       sync.Mutex
	errors   []string
	logs     []string
	fatal    string
	cleanups []func()
}

func newFakeTB(t *testing.T) *fakeTB {
	f := &fakeTB{TB: t}
	t.Cleanup(f.end)
	return f
}

func (f *fakeTB) Helper()           {}
func (f *fakeTB) Cleanup(fn func()) { f.cleanups = append(f.cleanups, fn) }

func (f *fakeTB) Errorf(format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.errors = append(f.errors, fmt.Sprintf(format, args...))
}

func (f *fakeTB) Logf(format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.logs = append(f.logs, fmt.Sprintf(format, args...))
}

func (f *fakeTB) Fatal(args ...any) { f.fatal = fmt.Sprint(args...) }

// end runs the cleanups, as the end of a test does.
func (f *fakeTB) end() {
	for i := len(f.cleanups) - 1; i >= 0; i-- {
		f.cleanups[i]()
	}
	f.cleanups = nil
}
