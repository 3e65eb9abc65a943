package readme

import (
	"bytes"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/internal/freeport"
)

const timeLimit, tick = 30 * time.Second, 20 * time.Millisecond

// tutorial holds the programs of docs/tutorial.md in a directory of the reader's.
type tutorial struct {
	dir    string
	secret string
	ports  *strings.Replacer
}

func newTutorial(t *testing.T) tutorial {
	t.Helper()
	text, err := os.ReadFile("../../docs/tutorial.md")
	require.NoError(t, err)
	tut := tutorial{
		dir:    t.TempDir(),
		secret: regexp.MustCompile(`WEBHOOK_SECRET=\S+`).FindString(string(text)),
		ports:  strings.NewReplacer("localhost:8080", freeAddress(t), "localhost:8081", freeAddress(t)),
	}
	program := regexp.MustCompile("(?s)Write `(\\w+)/main.go`:\n\n```go\n(.*?)```")
	programs := program.FindAllStringSubmatch(string(text), -1)
	require.Len(t, programs, 4)
	for _, p := range programs {
		source := filepath.Join(tut.dir, p[1]+".go")
		require.NoError(t, os.WriteFile(source, []byte(tut.ports.Replace(p[2])), 0o600))
		out, err := exec.CommandContext(t.Context(), "go", "build", "-o", filepath.Join(tut.dir, p[1]),
			source).CombinedOutput()
		require.NoError(t, err, string(out))
	}
	return tut
}

func freeAddress(t *testing.T) string {
	t.Helper()
	address, err := freeport.Address()
	require.NoError(t, err)
	return address
}

// output holds the text that a running program has printed.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

func (o *output) count(s string) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return strings.Count(o.text.String(), s)
}

func (tut tutorial) command(t *testing.T, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(t.Context(), filepath.Join(tut.dir, name), args...)
	cmd.Dir, cmd.Env = tut.dir, append(os.Environ(), tut.secret)
	return cmd
}

// start starts a program and returns its output, and a function that stops it.
func (tut tutorial) start(t *testing.T, name string, args ...string) (*output, func()) {
	t.Helper()
	printed := &output{}
	cmd := tut.command(t, name, args...)
	cmd.Stdout, cmd.Stderr = printed, printed
	require.NoError(t, cmd.Start())
	stop := sync.OnceFunc(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		_ = cmd.Wait()
	})
	t.Cleanup(func() {
		stop()
		if t.Failed() {
			t.Logf("%s printed:\n%s", name, printed)
		}
	})
	return printed, stop
}

// serve starts a program that listens, and returns when it accepts connections.
func (tut tutorial) serve(t *testing.T, name, address string) (*output, func()) {
	t.Helper()
	printed, stop := tut.start(t, name)
	require.Eventually(t, func() bool {
		c, err := net.Dial("tcp", tut.ports.Replace(address))
		return err == nil && c.Close() == nil
	}, timeLimit, tick)
	return printed, stop
}

func (tut tutorial) post(t *testing.T) (status, body string) {
	t.Helper()
	url := "http://" + tut.ports.Replace("localhost:8080") + "/refunds"
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(`{"amount":1000}`))
	require.NoError(t, err)
	req.Header.Set("Idempotency-Key", "k1")
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp.Header.Get("Idempotency-Status"), string(text)
}

func TestTheTutorialDoesWhatItSays(t *testing.T) {
	tut := newTutorial(t)
	service, stop := tut.serve(t, "service", "localhost:8080")
	status, first := tut.post(t)
	require.Equal(t, "stored", status)
	status, second := tut.post(t)
	require.Equal(t, "replayed", status)
	require.Equal(t, first, second)
	require.Equal(t, 1, service.count("made the refund"))

	made, err := tut.command(t, "call", "order-1138").CombinedOutput()
	require.NoError(t, err, string(made))
	require.Contains(t, string(made), "refunded: rf_")
	again, err := tut.command(t, "call", "order-1138").CombinedOutput()
	require.NoError(t, err, string(again))
	require.Equal(t, string(made), string(again))
	require.Equal(t, 2, service.count("made the refund"))

	stop()
	failed, err := tut.command(t, "call", "order-1139").CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(failed), "DEPENDENCY.unavailable")
	service, _ = tut.serve(t, "service", "localhost:8080")
	made, err = tut.command(t, "call", "order-1139").CombinedOutput()
	require.NoError(t, err, string(made))
	require.Equal(t, 1, service.count("made the refund"))

	for name, usage := range map[string]string{"call": "ORDER", "bank": "REFUND"} {
		printed, err := tut.command(t, name).CombinedOutput()
		require.Error(t, err)
		require.Contains(t, string(printed), "usage: go run ./"+name+" "+usage+"\n")
		require.NotContains(t, string(printed), "panic")
	}

	shop, _ := tut.serve(t, "shop", "localhost:8081")
	tut.start(t, "bank", "re_1")
	require.Eventually(t, func() bool {
		return shop.count("handled ") == 1 && shop.count("re_1") == 1
	}, timeLimit, tick)
}
