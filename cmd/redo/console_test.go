package main

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo"
	"github.com/redo-go/redo/outbox/pgoutbox"
	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/boltstore"
	"github.com/redo-go/redo/store/pgstore"
	"github.com/redo-go/redo/store/pgstore/pgtest"
)

// lockedBuffer holds the output of a command while a test reads it.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// startConsole runs redo console until stop, which returns its exit status and its output.
func startConsole(t *testing.T, args ...string) (address string, stop func() (int, string)) {
	t.Helper()
	file, errs := filepath.Join(t.TempDir(), "url"), &lockedBuffer{}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan int, 1)
	args = append([]string{"console", "--address", "127.0.0.1:0", "--author", "ana", "--url-file", file}, args...)
	go func() { ended <- run(ctx, args, terminal{in: strings.NewReader(""), out: io.Discard, err: errs}) }()
	t.Cleanup(cancel)
	stop = func() (int, string) {
		cancel()
		return <-ended, errs.String()
	}
	for {
		if text, err := os.ReadFile(file); err == nil {
			return strings.TrimSpace(string(text)), stop
		}
		select {
		case status := <-ended:
			t.Fatalf("exit status %d: %s", status, errs)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func get(t *testing.T, page string) string {
	t.Helper()
	resp, err := http.Get(page) //nolint:noctx // the test's own server
	require.NoError(t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, resp.StatusCode, string(body))
	return string(body)
}

// leaveUnknown leaves an operation whose effect is unknown.
func leaveUnknown(t *testing.T, st store.Store, name string) {
	t.Helper()
	leaveAt(t, st, name, "https://api.example/refunds", undecided{})
}

// leaveAt leaves an operation that was sent over the transport.
func leaveAt(t *testing.T, st store.Store, name, target string, rt http.RoundTripper) {
	t.Helper()
	once := redo.WithRetry(redo.RetryPolicy{MaxAttempts: 1})
	client, err := redo.New(redo.WithStore(st), once, redo.WithTransport(rt))
	require.NoError(t, err)
	req, err := http.NewRequestWithContext(redo.WithOperation(t.Context(), name), http.MethodPost,
		target, strings.NewReader("very-secret"))
	require.NoError(t, err)
	_, err = client.Do(req)
	require.Error(t, err)
}

func TestConsoleSettlesAnOperationOfAFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "payments.redo")
	require.NoError(t, makeQueue(file, "redo-outbox"))
	st, err := boltstore.Open(file)
	require.NoError(t, err)
	leaveUnknown(t, st, "refund:1")
	require.NoError(t, st.Close())

	address, stop := startConsole(t, file)
	page := get(t, address+"/")
	require.Contains(t, page, "refund:1")
	require.Contains(t, page, "<h2>outbox</h2>")
	require.NotContains(t, page, "<h2>inbox</h2>", "the file has none, and none is made")
	require.NotContains(t, page, "very-secret")
	require.Contains(t, page, "read the resource back, then settle")
	page = get(t, address+"/operation?name=refund:1")
	require.Contains(t, page, "read the resource back, then settle")
	require.NotContains(t, page, "retry with the same key", "a hint for clients, and redo does not send it again")
	key := regexp.MustCompile(`name="key" value="([^"]+)"`).FindStringSubmatch(page)
	require.NotNil(t, key)
	resp, err := http.PostForm(address+"/settle", url.Values{ //nolint:noctx // the test's own server
		"name": {"refund:1"}, "key": {key[1]}, "effect": {"applied"}, "evidence": {"rf_1"},
	})
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, http.StatusOK, resp.StatusCode)
	status, errs := stop()
	require.Zero(t, status, errs)
	require.Contains(t, errs, `settle by ana: "refund:1": done`)

	var out bytes.Buffer
	require.Zero(t, run(t.Context(), []string{"ops", "show", file, "refund:1"}, terminal{out: &out, err: &out}))
	require.Contains(t, out.String(), "finding    applied, by ana: rf_1")
}

// The headers are the credentials of one API.
func TestConsoleSendsItsHeadersToOneHost(t *testing.T) {
	file := filepath.Join(t.TempDir(), "payments.redo")
	st, err := boltstore.Open(file)
	require.NoError(t, err)
	var first, second atomic.Int32
	for name, came := range map[string]*atomic.Int32{"a": &first, "b": &second} {
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Authorization") == "Bearer token" {
				came.Add(1)
			}
			w.WriteHeader(http.StatusCreated)
		}))
		defer srv.Close()
		leaveAt(t, st, name+"1", srv.URL, unplugged{})
		leaveAt(t, st, name+"2", srv.URL, unplugged{})
	}
	require.NoError(t, st.Close())

	address, stop := startConsole(t, file, "--header", "Authorization: Bearer token")
	for _, name := range []string{"a1", "b1", "a2", "b2"} {
		key := regexp.MustCompile(`name="key" value="([^"]+)"`).FindStringSubmatch(
			get(t, address+"/operation?name="+name))
		require.NotNil(t, key)
		resp, err := http.PostForm(address+"/resume", url.Values{"name": {name}, "key": {key[1]}}) //nolint:noctx // as above
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
	}
	_, errs := stop()
	require.Equal(t, int32(2), first.Load(), errs)
	require.Zero(t, second.Load(), errs)
	require.Contains(t, errs, "does not go to "+"127.0.0.1:")
}

func TestConsoleShowsPostgres(t *testing.T) {
	address := pgtest.URL(t)
	schema := pgtest.NewSchema(t, address)
	pool := pgtest.NewPool(t, address, 2)
	var out bytes.Buffer
	args := []string{"console", address, "--schema", schema}
	require.Equal(t, exitFailed, run(t.Context(), args, terminal{out: &out, err: &out}))
	require.Contains(t, out.String(), `"redo_records": create it`)

	q, err := pgoutbox.New(pool, pgoutbox.WithSchema(schema))
	require.NoError(t, err)
	require.NoError(t, q.Migrate(t.Context()))
	require.NoError(t, fillQueue(t.Context(), q))
	page, stop := startConsole(t, address, "--schema", schema)
	require.NotContains(t, get(t, page+"/"), "<h2>Operations</h2>", "there is no table of records")
	status, errs := stop()
	require.Zero(t, status, errs)
	require.Contains(t, errs, "not shown: pgstore: table missing")

	st, err := pgstore.New(pool, pgstore.WithSchema(schema))
	require.NoError(t, err)
	require.NoError(t, st.Migrate(t.Context()))
	leaveUnknown(t, st, "refund:1")
	page, stop = startConsole(t, address, "--schema", schema)
	text := get(t, page+"/")
	require.Contains(t, text, "refund:1")
	require.Contains(t, text, `state=dead">Dead</a></dt><dd>3</dd>`)
	require.NotContains(t, text, "very-secret")
	status, errs = stop()
	require.Zero(t, status, errs)
	require.NoError(t, st.Close())
}

func TestConsoleListensOnlyOnThisMachine(t *testing.T) {
	for _, address := range []string{
		":8090", "0.0.0.0:8090", "[::]:8090", "10.0.0.1:8090", "redo.example:8090", "127.0.0.1", "",
	} {
		var errs bytes.Buffer
		require.Equal(t, exitUsage, run(t.Context(), []string{"console", "none.redo", "--address", address},
			terminal{out: &errs, err: &errs}), address)
		require.Contains(t, errs.String(), "--address", address)
	}
	for _, address := range []string{"127.0.0.1:0", "localhost:0", "[::1]:0", "127.1.2.3:9000"} {
		var errs bytes.Buffer
		require.Equal(t, exitFailed, run(t.Context(), []string{"console", "none.redo", "--address", address},
			terminal{out: &errs, err: &errs}), address)
		require.Contains(t, errs.String(), `there is no file "none.redo"`)
	}
}
