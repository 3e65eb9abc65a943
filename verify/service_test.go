package verify

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"
)

// A service is a server that the tests need. The environment names one, or else a private one is started from the
// installed programs. A private one serves the whole run and is stopped after it. Each test uses different names
// on it.
type service struct {
	variable string
	start    func(dir string, port int) (url string, stop func() error, err error)

	once sync.Once
	at   string
	dir  string
	stop func() error
	err  error
}

var (
	redis    = service{variable: "REDO_TEST_REDIS", start: startRedis}
	postgres = service{variable: "REDO_TEST_POSTGRES", start: startPostgres}
	mariadb  = service{variable: "REDO_TEST_MYSQL", start: startMariaDB}
)

func TestMain(m *testing.M) {
	// A text that is no number fails the tests that make histories.
	rounds, _ := strconv.Atoi(os.Getenv("REDO_VERIFY_ROUNDS"))
	// The seed of a failure repeats it, so no file is left in the checkout.
	set("rapid.nofailfile", "true")
	set("rapid.steps", "50")
	set("rapid.checks", strconv.Itoa(100*max(1, rounds)))
	code := m.Run()
	for _, s := range []*service{&redis, &postgres, &mariadb} {
		if err := s.end(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = max(code, 1)
		}
	}
	os.Exit(code)
}

// set changes a flag's default. A flag on the command line overrides it.
func set(flagName, value string) {
	if err := flag.Set(flagName, value); err != nil {
		panic(err)
	}
}

// url is where the service is. Where there is none the test is skipped, or fails if services are required.
func (s *service) url(t *testing.T) string {
	t.Helper()
	if url := os.Getenv(s.variable); url != "" {
		return url
	}
	s.once.Do(s.begin)
	if s.err != nil {
		if os.Getenv("REDO_TEST_REQUIRE") == "1" {
			t.Fatalf("REDO_TEST_REQUIRE is set: %v", s.err)
		}
		t.Skipf("needs %s, or a server that is installed: %v", s.variable, s.err)
	}
	return s.at
}

func (s *service) begin() {
	// The server may run as another user, who needs access to this directory.
	if s.dir, s.err = os.MkdirTemp("", "redo-verify-"); s.err != nil {
		return
	}
	for range 3 { // another program may take the port between its choice and its use
		var port int
		if port, s.err = freePort(); s.err != nil {
			return
		}
		if s.at, s.stop, s.err = s.start(s.dir, port); s.err == nil {
			return
		}
	}
}

func (s *service) end() (err error) {
	if s.stop != nil {
		err = s.stop()
	}
	if s.dir != "" {
		err = errors.Join(err, os.RemoveAll(s.dir))
	}
	return err
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

func startRedis(dir string, port int) (string, func() error, error) {
	binary, err := redisBinary()
	if err != nil {
		return "", nil, err
	}
	cmd := exec.Command(binary, "--port", strconv.Itoa(port), "--bind", "127.0.0.1", "--dir", dir, "--save", "",
		"--maxmemory-policy", "noeviction")
	if err := cmd.Start(); err != nil {
		return "", nil, err
	}
	stop := func() error {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // the error reports that it was killed
		return nil
	}
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for begun := time.Now(); time.Since(begun) < 30*time.Second; <-tick.C {
		if pong(port) {
			return fmt.Sprintf("redis://127.0.0.1:%d/0", port), stop, nil
		}
	}
	return "", nil, errors.Join(fmt.Errorf("%s does not respond", binary), stop())
}

// redisBinary returns the program that REDO_TEST_REDIS_SERVER names, or else the one on PATH.
func redisBinary() (string, error) {
	if name := os.Getenv("REDO_TEST_REDIS_SERVER"); name != "" {
		return exec.LookPath(name)
	}
	for _, name := range []string{"redis-server", "valkey-server"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", errors.New("neither redis-server nor valkey-server is on PATH")
}

func pong(port int) bool {
	c, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return false
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(time.Second))
	fmt.Fprint(c, "PING\r\n")
	reply := make([]byte, 7)
	_, err = io.ReadFull(c, reply)
	return err == nil && bytes.Equal(reply, []byte("+PONG\r\n"))
}

func startPostgres(dir string, port int) (string, func() error, error) {
	bin, err := postgresBinaries()
	if err != nil {
		return "", nil, err
	}
	cluster := filepath.Join(dir, "db")
	run := func(name string, args ...string) error {
		argv := append([]string{filepath.Join(bin, name), "-D", cluster}, args...)
		if os.Geteuid() == 0 { // Postgres refuses to run as root
			argv = append([]string{"runuser", "-u", "postgres", "--"}, argv...)
		}
		cmd := exec.Command(argv[0], argv[1:]...)
		cmd.Dir = dir
		if err := cmd.Run(); err != nil { // no pipes: the server would hold them open
			log, _ := os.ReadFile(filepath.Join(dir, "log"))
			return fmt.Errorf("%s: %w\n%s", name, err, log)
		}
		return nil
	}
	if os.Geteuid() == 0 {
		if err := exec.Command("chown", "postgres", dir).Run(); err != nil {
			return "", nil, fmt.Errorf("can't give %s to the user postgres: %w", dir, err)
		}
	}
	if _, err := os.Stat(cluster); err != nil {
		if err := run("initdb", "-U", "postgres", "-A", "trust", "--locale=C.UTF-8", "--no-sync"); err != nil {
			return "", nil, err
		}
	}
	err = run("pg_ctl", "-l", filepath.Join(dir, "log"), "-w", "-t", "60",
		"-o", fmt.Sprintf("-c listen_addresses=127.0.0.1 -c unix_socket_directories= -c fsync=off -p %d", port), "start")
	stop := func() error { return run("pg_ctl", "-m", "immediate", "stop") }
	return fmt.Sprintf("postgres://postgres@127.0.0.1:%d/postgres?sslmode=disable", port), stop, err
}

// postgresBinaries returns the directory of pg_ctl: that on PATH, or the newest that Debian has installed.
func postgresBinaries() (string, error) {
	if path, err := exec.LookPath("pg_ctl"); err == nil {
		path, err = filepath.EvalSymlinks(path)
		return filepath.Dir(path), err
	}
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/pg_ctl")
	if len(found) == 0 {
		return "", errors.New("pg_ctl is neither on PATH nor below /usr/lib/postgresql")
	}
	major := func(path string) int {
		n, _ := strconv.Atoi(filepath.Base(filepath.Dir(filepath.Dir(path))))
		return n
	}
	return filepath.Dir(slices.MaxFunc(found, func(a, b string) int { return major(a) - major(b) })), nil
}
