package proxies

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/internal/freeport"
	"github.com/redo-go/redo/verify/internal/dbserver"
)

// page is the page whose settings the tests use.
const page = "../../docs/proxies.md"

// limit bounds the start of a proxy, and its end.
const limit = 20 * time.Second

// The addresses that the page prints.
const (
	printedFirst  = "10.0.0.11:8080"
	printedSecond = "10.0.0.12:8080"
)

// A product is a reverse proxy with the settings that the page prints for it.
type product struct {
	name     string
	listen   [2]string // as the page prints it, and with another address
	frame    string    // the file around the settings, with the directory of the files
	args     func(dir, file string) []string
	settings string
	repeats  [2]string // a setting, and the same with repetitions of requests that may have been applied
}

// products returns all of them.
func products(t *testing.T) []product { return []product{nginx(t), haproxy(t)} }

func nginx(t *testing.T) product {
	return product{
		name:   "nginx",
		listen: [2]string{"listen 80;", "listen %s;"},
		frame: "user root; daemon off; pid %[1]s/pid;\nevents {}\nhttp {\naccess_log off;\n" +
			"client_body_temp_path %[1]s/body; proxy_temp_path %[1]s/proxy; fastcgi_temp_path %[1]s/fastcgi;\n" +
			"uwsgi_temp_path %[1]s/uwsgi; scgi_temp_path %[1]s/scgi;\n%[2]s}\n",
		args:     func(dir, file string) []string { return []string{"-p", dir, "-c", file, "-e", "stderr"} },
		settings: block(t, "nginx"),
		repeats:  [2]string{"location / {", "location / {\nproxy_next_upstream error timeout non_idempotent;"},
	}
}

func haproxy(t *testing.T) product {
	return product{
		name:     "haproxy",
		listen:   [2]string{"bind :80", "bind %s"},
		frame:    "%[2]s",
		args:     func(_, file string) []string { return []string{"-db", "-f", file} },
		settings: block(t, "haproxy"),
		repeats:  [2]string{"option redispatch", "option redispatch\n    retry-on all-retryable-errors"},
	}
}

// block returns the page's block of code in a language.
func block(t *testing.T, language string) string {
	t.Helper()
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	_, rest, found := strings.Cut(string(text), "\n```"+language+"\n")
	require.True(t, found, "%s has no block of %s", page, language)
	code, _, _ := strings.Cut(rest, "```\n")
	return code
}

// changed returns the product with other settings. It fails if the page does not print the old ones.
func (p product) changed(t *testing.T, old, changed string) product {
	t.Helper()
	require.Contains(t, p.settings, old)
	p.settings = strings.ReplaceAll(p.settings, old, changed)
	return p
}

// start runs the proxy in front of two addresses until the test ends, and returns its URL.
func (p product) start(t *testing.T, first, second string) string {
	t.Helper()
	address, err := freeport.Address()
	require.NoError(t, err)
	p = p.changed(t, p.listen[0], fmt.Sprintf(p.listen[1], address))
	p = p.changed(t, printedFirst, first).changed(t, printedSecond, second)
	dir := t.TempDir()
	file := filepath.Join(dir, "conf")
	require.NoError(t, os.WriteFile(file, fmt.Appendf(nil, p.frame, dir, p.settings), 0o600))

	launch(t, address, p.name, p.args(dir, file))
	return "http://" + address
}

// launch runs a program until the test ends, and returns when it listens.
func launch(t *testing.T, address, name string, args []string) {
	t.Helper()
	cmd := exec.Command(program(t, name), args...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // its workers too
	require.NoError(t, cmd.Start())
	ended := make(chan struct{})
	go func() { defer close(ended); _ = cmd.Wait() }()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM) // it ends its workers
		select {
		case <-ended:
		case <-time.After(limit):
			_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		}
	})
	for deadline := time.Now().Add(limit); ; time.Sleep(10 * time.Millisecond) {
		if c, err := net.Dial("tcp", address); err == nil {
			_ = c.Close()
			return
		}
		select {
		case <-ended:
			require.Fail(t, name+" has ended", "%s", out.String())
		default:
			require.True(t, time.Now().Before(deadline), "%s does not listen", name)
		}
	}
}

// program finds a program. It skips the test if there is none, unless REDO_TEST_REQUIRE is set.
func program(t *testing.T, name string) string {
	t.Helper()
	path, err := dbserver.Find(name)
	if err != nil && os.Getenv("REDO_TEST_REQUIRE") != "1" {
		t.Skip(err)
	}
	require.NoError(t, err)
	return path
}
