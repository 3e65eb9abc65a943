// Package pgtest starts the Postgres servers and the transaction poolers that tests of this project use. It has no
// promise of compatibility.
package pgtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
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

	"github.com/redo-go/redo/internal/freeport"
)

// A Server is a private Postgres on the loopback interface, made and stopped by the tests.
type Server struct {
	// URL is the connection string of the superuser, without a password. It changes when the server starts on another
	// port.
	URL string
	// Port is on 127.0.0.1.
	Port int

	bin, dir string
	killed   bool // and not started again
}

var errNoPostgres = errors.New(
	"no pg_ctl and initdb on PATH or below /usr/lib/postgresql; most tests take REDO_TEST_POSTGRES as well",
)

// newDir makes a directory outside of t.TempDir, which the server's user could not enter.
func newDir() (string, error) { return os.MkdirTemp("", "pgtest") }

// newServer makes a cluster in dir and starts a server. Postgres refuses to run as root, and then runs as "postgres".
func newServer(dir string) (*Server, error) {
	bin, err := binaries()
	if err != nil {
		return nil, err
	}
	s := &Server{bin: bin, dir: dir}
	if os.Geteuid() == 0 {
		if err := give(dir, "postgres"); err != nil {
			return nil, err
		}
	}
	if err := s.run(
		"initdb",
		"-D",
		s.Cluster(),
		"-U",
		"postgres",
		"-A",
		"trust",
		"--locale=C.UTF-8",
		"--no-sync",
	); err != nil {
		return nil, err
	}
	return s, s.startSomewhere()
}

// startSomewhere starts the server on a free port. Another program may take the port before the server does.
func (s *Server) startSomewhere() (err error) {
	for range 5 {
		if s.Port, err = freeport.Port(); err != nil {
			return err
		}
		if err = s.start(); err == nil {
			break
		}
	}
	s.URL = fmt.Sprintf("postgres://postgres@127.0.0.1:%d/postgres?sslmode=disable", s.Port)
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

// Cluster returns the data directory.
func (s *Server) Cluster() string { return filepath.Join(s.dir, "db") }

func (s *Server) run(name string, args ...string) error {
	argv := append([]string{filepath.Join(s.bin, name)}, args...)
	if os.Geteuid() == 0 {
		argv = append([]string{runuser(), "-u", "postgres", "--"}, argv...)
	}
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Dir = s.dir
	// The server inherits the output. If that were a pipe, Run would wait for the server to end.
	out, err := os.CreateTemp("", "pgtest")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(out.Name()) }()
	defer func() { _ = out.Close() }()
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

// start starts the server. It does not sync its files: a killed server loses no write that the kernel has, and only a
// power cut would. Most of a test's time was spent on syncs.
func (s *Server) start() error {
	err := s.run("pg_ctl", "-D", s.Cluster(), "-l", filepath.Join(s.dir, "log"), "-w", "-t", "60",
		"-o", fmt.Sprintf("-c listen_addresses=127.0.0.1 -c unix_socket_directories= -c fsync=off -p %d", s.Port), "start")
	if err == nil {
		s.killed = false
	}
	return err
}

// Stop stops the server without a checkpoint, as a crash of it would.
func (s *Server) Stop() error {
	if s.killed {
		return nil
	}
	return s.run("pg_ctl", "-D", s.Cluster(), "-m", "immediate", "stop")
}

// Kill ends the server's first process with SIGKILL. The other processes then end too.
func (s *Server) Kill() error {
	pid, err := os.ReadFile(filepath.Join(s.Cluster(), "postmaster.pid"))
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

// Restart starts the server after Kill or Stop, when the last of its processes has ended.
func (s *Server) Restart(ctx context.Context) error {
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

// NewServer starts a server for the test alone, and stops it when the test ends.
func NewServer(t testing.TB) *Server {
	t.Helper()
	dir, err := newDir()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	s, err := newServer(dir)
	if err != nil {
		Skip(t, err)
	}
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// Skip skips the test, or fails it if REDO_TEST_REQUIRE is 1.
func Skip(t testing.TB, why error) {
	t.Helper()
	if os.Getenv("REDO_TEST_REQUIRE") == "1" {
		t.Fatalf("REDO_TEST_REQUIRE is set: %v", why)
	}
	t.Skipf("needs a service: %v", why)
}
