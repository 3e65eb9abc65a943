package mysqltest

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"time"

	"github.com/redo-go/redo/internal/freeport"
)

// A Server is a private MariaDB or MySQL on the loopback interface.
type Server struct {
	bin, dir string
	options  []string
	port     int
	DSN      string // of its administrator, without a database
	process  *exec.Cmd
	log      *bytes.Buffer
}

var errNoServer = errors.New("there is no mariadbd and mariadb-install-db on PATH or in /usr/sbin; " +
	"most tests can use the server of REDO_TEST_MYSQL")

// newServer creates a data directory below dir and starts a server on it. The server does not run as root. If the test
// does, the server runs as the user mysql.
func newServer(dir string, options []string) (*Server, error) {
	s := &Server{bin: os.Getenv("REDO_TEST_MYSQL_SERVER"), dir: dir, options: options}
	install, args := s.bin, []string{"--no-defaults", "--initialize-insecure"}
	if s.bin == "" {
		var err error
		if s.bin, err = find("mariadbd"); err != nil {
			return nil, err
		}
		if install, err = find("mariadb-install-db"); err != nil {
			return nil, err
		}
		args = []string{"--no-defaults", "--auth-root-authentication-method=normal", "--skip-test-db"}
	}
	args = append(args, "--datadir="+s.data(), "--tmpdir="+s.dir)
	if os.Geteuid() == 0 {
		if err := give(dir, "mysql"); err != nil {
			return nil, err
		}
		args = append(args, "--user=mysql")
	}
	if out, err := exec.Command(install, args...).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%s: %w\n%s", install, err, out)
	}
	var err error
	if s.port, err = freeport.Port(); err != nil {
		return nil, err
	}
	s.DSN = fmt.Sprintf("root@tcp(127.0.0.1:%d)/", s.port)
	return s, s.Start()
}

// find also looks where Debian installs servers.
func find(name string) (string, error) {
	for _, path := range []string{name, "/usr/sbin/" + name, "/usr/bin/" + name} {
		if found, err := exec.LookPath(path); err == nil {
			return found, nil
		}
	}
	return "", errNoServer
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

func (s *Server) data() string { return filepath.Join(s.dir, "data") }

// Start starts the server and waits until it accepts connections.
func (s *Server) Start() error {
	args := []string{"--no-defaults", "--datadir=" + s.data(), "--tmpdir=" + s.dir, "--bind-address=127.0.0.1",
		fmt.Sprint("--port=", s.port), "--socket=" + filepath.Join(s.dir, "socket"),
		"--pid-file=" + filepath.Join(s.dir, "pid"), "--innodb-buffer-pool-size=64M", "--max-connections=400",
		// A commit is written and not synced: a killed server loses no write that the kernel has.
		"--innodb-flush-log-at-trx-commit=2", "--sync-binlog=0"}
	if os.Geteuid() == 0 {
		args = append(args, "--user=mysql")
	}
	args = append(args, s.options...)
	s.log = &bytes.Buffer{}
	s.process = exec.Command(s.bin, args...)
	s.process.Dir, s.process.Stdout, s.process.Stderr = s.dir, s.log, s.log
	if err := s.process.Start(); err != nil {
		return err
	}
	db, err := sql.Open("mysql", s.DSN)
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		if err = db.PingContext(ctx); err == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			_ = s.Kill()
			return fmt.Errorf("%w: %w\n%s", ctx.Err(), err, s.log)
		}
	}
}

// Restart shuts the server down and starts it with other options than [Private] has set.
func (s *Server) Restart(options ...string) error {
	db, err := sql.Open("mysql", s.DSN)
	if err != nil {
		return err
	}
	_, err = db.Exec("SHUTDOWN")
	if err = errors.Join(err, db.Close()); err != nil {
		return err
	}
	if err := s.process.Wait(); err != nil {
		return fmt.Errorf("%w\n%s", err, s.log)
	}
	s.options = options
	return s.Start()
}

// Kill ends the server with SIGKILL and waits until it is gone.
func (s *Server) Kill() error {
	if err := s.process.Process.Kill(); err != nil {
		return err
	}
	_ = s.process.Wait() // it was killed
	return nil
}
