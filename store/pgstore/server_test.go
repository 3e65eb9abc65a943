package pgstore_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A server is a private Postgres on the loopback interface, made and stopped by the tests.
type server struct {
	bin, dir string
	port     int
	url      string
	killed   bool // and not started again
}

var errNoPostgres = errors.New("no pg_ctl and initdb on PATH or below /usr/lib/postgresql; most tests take REDO_TEST_POSTGRES as well")

// newDir makes a directory that another user can be given, which one below t.TempDir's could not reach.
func newDir() (string, error) { return os.MkdirTemp("", "pgstore") }

// newServer makes a cluster in dir and starts it. Postgres refuses to run as root: there it runs as "postgres".
func newServer(dir string) (*server, error) {
	bin, err := binaries()
	if err != nil {
		return nil, err
	}
	s := &server{bin: bin, dir: dir}
	if os.Geteuid() == 0 {
		if err := give(dir, "postgres"); err != nil {
			return nil, err
		}
	}
	if err := s.run("initdb", "-D", s.cluster(), "-U", "postgres", "-A", "trust", "--locale=C.UTF-8", "--no-sync"); err != nil {
		return nil, err
	}
	return s, s.startSomewhere()
}

// startSomewhere starts the server on a free port. Another program may take that between its choice and its use.
func (s *server) startSomewhere() (err error) {
	for range 5 {
		if s.port, err = freePort(); err != nil {
			return err
		}
		if err = s.start(); err == nil {
			break
		}
	}
	s.url = fmt.Sprintf("postgres://postgres@127.0.0.1:%d/postgres?sslmode=disable", s.port)
	return err
}

// binaries returns the directory of pg_ctl: that on PATH, or the newest that Debian has installed.
func binaries() (string, error) {
	path, err := exec.LookPath("pg_ctl")
	if err != nil {
		found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/pg_ctl")
		if len(found) == 0 {
			return "", errNoPostgres
		}
		path = slices.MaxFunc(found, func(a, b string) int { return major(a) - major(b) })
	}
	if path, err = filepath.EvalSymlinks(path); err != nil {
		return "", err
	}
	if _, err := os.Stat(filepath.Join(filepath.Dir(path), "initdb")); err != nil {
		return "", errNoPostgres
	}
	return filepath.Dir(path), nil
}

func major(path string) int {
	n, _ := strconv.Atoi(filepath.Base(filepath.Dir(filepath.Dir(path))))
	return n
}

func give(dir, name string) error {
	u, err := user.Lookup(name)
	if err != nil {
		return err
	}
	uid, err := strconv.Atoi(u.Uid)
	if err != nil {
		return err
	}
	return os.Chown(dir, uid, -1)
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

func (s *server) cluster() string { return filepath.Join(s.dir, "db") }

func (s *server) run(name string, args ...string) error {
	argv := append([]string{filepath.Join(s.bin, name)}, args...)
	if os.Geteuid() == 0 {
		argv = append([]string{runuser(), "-u", "postgres", "--"}, argv...)
	}
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Dir = s.dir
	// Into a file: the server inherits a pipe, and waiting for its end would be waiting for the server's.
	out, err := os.CreateTemp("", "pgstore")
	if err != nil {
		return err
	}
	defer os.Remove(out.Name())
	defer out.Close()
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Run(); err != nil {
		said, _ := os.ReadFile(out.Name())
		log, _ := os.ReadFile(filepath.Join(s.dir, "log"))
		return fmt.Errorf("%s: %w\n%s%s", name, err, said, log[max(0, len(log)-2000):])
	}
	return nil
}

// runuser finds the command also where root's PATH lacks the directory of the system's own commands.
func runuser() string {
	for _, name := range []string{"runuser", "/usr/sbin/runuser", "/sbin/runuser"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	return "runuser"
}

func (s *server) start() error {
	err := s.run("pg_ctl", "-D", s.cluster(), "-l", filepath.Join(s.dir, "log"), "-w", "-t", "60",
		"-o", fmt.Sprintf("-c listen_addresses=127.0.0.1 -c unix_socket_directories= -p %d", s.port), "start")
	if err == nil {
		s.killed = false
	}
	return err
}

func (s *server) stop() error {
	if s.killed {
		return nil // there is nobody to ask
	}
	return s.run("pg_ctl", "-D", s.cluster(), "-m", "immediate", "stop")
}

// kill ends the server's first process with SIGKILL; the others follow by themselves.
func (s *server) kill() error {
	pid, err := os.ReadFile(filepath.Join(s.cluster(), "postmaster.pid"))
	if err != nil {
		return err
	}
	line, _, _ := bytes.Cut(pid, []byte("\n"))
	n, err := strconv.Atoi(strings.TrimSpace(string(line)))
	if err != nil {
		return err
	}
	s.killed = true
	return syscall.Kill(n, syscall.SIGKILL)
}

// restart starts the server after kill, once the last of its processes is gone.
func (s *server) restart(ctx context.Context) error {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		err := s.start()
		if err == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		}
	}
}

// privateServer is a server of the test's own, to be killed.
func privateServer(t *testing.T) *server {
	t.Helper()
	dir, err := newDir()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	s, err := newServer(dir)
	if err != nil {
		skip(t, err) // one that can't be started here is as good as none
	}
	t.Cleanup(func() {
		if err := s.stop(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// skip skips the test, or fails it where services are required.
func skip(t testing.TB, why error) {
	t.Helper()
	if os.Getenv("REDO_TEST_REQUIRE") == "1" {
		t.Fatalf("REDO_TEST_REQUIRE is set: %v", why)
	}
	t.Skipf("needs a service: %v", why)
}
