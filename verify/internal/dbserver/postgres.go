package dbserver

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"

	"github.com/jackc/pgx/v5"
)

// Postgres starts a Postgres. It syncs no file, because a killed server loses no write that the kernel has.
func Postgres() (*Server, error) {
	bin, err := postgresBinaries()
	if err != nil {
		return nil, err
	}
	dir, err := newDir("postgres")
	if err != nil {
		return nil, err
	}
	run := func(name string, args ...string) *exec.Cmd {
		cmd := exec.Command(filepath.Join(bin, name), args...)
		cmd.Dir = dir
		if os.Geteuid() == 0 { // Postgres refuses to run as root
			as, _ := credential("postgres") // newDir has found the user
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: as}
		}
		return cmd
	}
	data := filepath.Join(dir, "data")
	initdb := run("initdb", "-D", data, "-U", "postgres", "-A", "trust", "--locale=C.UTF-8", "--no-sync")
	if out, err := initdb.CombinedOutput(); err != nil {
		return nil, errors.Join(fmt.Errorf("initdb: %w\n%s", err, out), os.RemoveAll(dir))
	}
	s := &Server{dir: dir}
	return launch(s, func(port int) {
		s.URL = fmt.Sprintf("postgres://postgres@127.0.0.1:%d/postgres?sslmode=disable", port)
		s.command = func() *exec.Cmd {
			return run("postgres", "-D", data, "-p", strconv.Itoa(port), "-c", "listen_addresses=127.0.0.1",
				"-c", "unix_socket_directories=", "-c", "fsync=off", "-c", "max_connections=200")
		}
		s.ready = func(ctx context.Context) error {
			conn, err := pgx.Connect(ctx, s.URL+"&connect_timeout=2")
			if err != nil {
				return err
			}
			return conn.Close(ctx)
		}
	})
}

// postgresBinaries returns the directory of initdb and postgres. It prefers the programs on PATH, then the newest ones
// that Debian has installed.
func postgresBinaries() (string, error) {
	if path, err := exec.LookPath("initdb"); err == nil {
		path, err = filepath.EvalSymlinks(path)
		return filepath.Dir(path), err
	}
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if len(found) == 0 {
		return "", fmt.Errorf("initdb: %w", ErrMissing)
	}
	major := func(path string) int {
		n, _ := strconv.Atoi(filepath.Base(filepath.Dir(filepath.Dir(path))))
		return n
	}
	return filepath.Dir(slices.MaxFunc(found, func(a, b string) int { return major(a) - major(b) })), nil
}
