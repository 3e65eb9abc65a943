package main

import (
	"bytes"
	"context"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo"
	"github.com/redo-go/redo/cmd/redo/internal/targetfile"
	"github.com/redo-go/redo/internal/racetest"
	"github.com/redo-go/redo/store/boltstore"
)

// Each line that --help shows runs as it stands, save that what it would reach at a fixed address is where the test has
// put it. The directory has the files that the lines name.
func TestExamplesOfHelpRun(t *testing.T) {
	racetest.Repeats(t)
	t.Chdir(t.TempDir())
	url := serveHere(t, "whole.yaml")
	quick(t, "whole.yaml", "target.yaml")
	placeRefund(t)
	for _, name := range []string{"a.json", "b.json"} {
		var out, errs bytes.Buffer
		args := []string{"check", "target.yaml", "--run", "ctl", "--output", name}
		require.Zero(t, run(t.Context(), args, terminal{in: http.NoBody, out: &out, err: &errs}), errs.String())
	}
	elsewhere := strings.NewReplacer("http://localhost:8080", url, "https://staging.example.com", url,
		"127.0.0.1:9000", "127.0.0.1:0", "127.0.0.1:9001", "127.0.0.1:0")
	seen := 0
	for _, cmd := range commands(newRoot(terminal{})) {
		if cmd.Example == "" {
			require.True(t, cmd.HasSubCommands(), "%s has no example", cmd.CommandPath())
			continue
		}
		for line := range strings.SplitSeq(cmd.Example, "\n") {
			seen++
			t.Run(strings.TrimSpace(line), func(t *testing.T) {
				require.True(t, strings.HasPrefix(line, "  "+cmd.CommandPath()),
					"an example of %s is of another command",
					cmd.CommandPath())
				leaveRefund(t, url)
				require.NoError(t, os.RemoveAll("orders.redo"))
				require.NoError(t, makeQueue("orders.redo", "redo-outbox"))
				require.NoError(t, makeQueue("orders.redo", "redo-inbox"))
				leaveRecords(t)
				switch cmd.CommandPath() {
				case "redo ops drop":
					require.NoError(t, damageText("payments.redo", "/refunds"))
				case "redo records drop":
					require.NoError(t, damageText("orders.redo", "/orders/o1"))
				}
				words := shellWords(t, elsewhere.Replace(line))
				runLine(t, words[1:])
			})
		}
	}
	require.Greater(t, seen, 20)
}

// quick removes the slow variants from a target.
func quick(t *testing.T, from, to string) {
	t.Helper()
	data, err := os.ReadFile(from)
	require.NoError(t, err)
	target, err := targetfile.Parse(from, data)
	require.NoError(t, err)
	target.Crash, target.Expiring, target.Slow = nil, nil, nil
	data, err = targetfile.Format(target)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(to, data, 0o600))
}

// commands returns a command with all below it.
func commands(root *cobra.Command) []*cobra.Command {
	all := []*cobra.Command{root}
	for _, c := range root.Commands() {
		all = append(all, commands(c)...)
	}
	return all
}

// runLine runs a command line. A server is stopped once it prints its address.
func runLine(t *testing.T, args []string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var out bytes.Buffer
	for i, arg := range args {
		if arg == ">" { // as a shell does
			args = args[:i]
			break
		}
	}
	if args[0] == "serve" || args[0] == "proxy" {
		args = append(args, "--lenient")
		if !strings.Contains(strings.Join(args, " "), "--listen") {
			args = append(args, "--listen", "127.0.0.1:0")
		}
	}
	errs := &announced{cancel: cancel}
	status := run(ctx, args, terminal{in: strings.NewReader("y\n"), out: &out, err: errs})
	require.Zero(t, status, "%s%s", out.String(), errs)
}

// announced cancels when a server prints its address.
type announced struct {
	mu     sync.Mutex
	text   strings.Builder
	cancel func()
}

func (a *announced) Write(p []byte) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if bytes.Contains(p, []byte(": http://")) {
		a.cancel()
	}
	return a.text.Write(p)
}

func (a *announced) String() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.text.String()
}

// serveHere runs redo serve until the test's end, writes its target file and returns its URL.
func serveHere(t *testing.T, target string) string {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	listening, ended := context.WithCancel(t.Context())
	errs := &announced{cancel: ended}
	done := make(chan int, 1)
	go func() {
		args := []string{"serve", "--listen", "127.0.0.1:0", "--write-target", target, "--url-file", "url"}
		done <- run(ctx, args, terminal{in: http.NoBody, out: &bytes.Buffer{}, err: errs})
		ended()
	}()
	t.Cleanup(func() {
		cancel()
		require.Zero(t, <-done, errs.String())
	})
	<-listening.Done()
	// Announced before the file is written, or else it has ended.
	var url []byte
	require.Eventually(t, func() bool {
		url, _ = os.ReadFile("url")
		return len(url) > 0
	}, timeLimit, tick, "%s", errs)
	return strings.TrimSpace(string(url))
}

// leaveRefund makes the client's file that examples name.
func leaveRefund(t *testing.T, url string) {
	t.Helper()
	require.NoError(t, os.RemoveAll("payments.redo"))
	st, err := boltstore.Open("payments.redo")
	require.NoError(t, err)
	client, err := redo.New(redo.WithStore(st), redo.WithRetry(redo.RetryPolicy{MaxAttempts: 1}),
		redo.WithTransport(unplugged{}))
	require.NoError(t, err)
	ctx := redo.WithOperation(t.Context(), "refund:ch_9ab:1000")
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/refunds", strings.NewReader(`{"amount":1000}`))
	require.NoError(t, err)
	_, err = client.Do(req)
	require.Error(t, err)
	require.NoError(t, client.Close())
	require.NoError(t, st.Close())
}

// leaveRecords leaves the records of a server in orders.redo.
func leaveRecords(t *testing.T) {
	t.Helper()
	st, err := boltstore.Open("orders.redo")
	require.NoError(t, err)
	recordIn(t, st)
	require.NoError(t, st.Close())
}

// shellWords cuts a line as a shell does, as far as examples go: words, quotation marks, variables that are left alone.
func shellWords(t *testing.T, line string) []string {
	t.Helper()
	var words []string
	var word strings.Builder
	var quote rune
	open := false
	for _, c := range line {
		switch {
		case quote != 0 && c == quote:
			quote = 0
		case quote != 0:
			word.WriteRune(c)
		case c == '\'' || c == '"':
			quote, open = c, true
		case c == ' ':
			if open {
				words = append(words, word.String())
			}
			word.Reset()
			open = false
		default:
			open = true
			word.WriteRune(c)
		}
	}
	require.Zero(t, quote, "a quotation mark is left open: %s", line)
	if open {
		words = append(words, word.String())
	}
	return words
}
