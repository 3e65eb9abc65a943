package mysqlstore_test

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
)

// A server is a private MariaDB or MySQL on the loopback interface, made and stopped by the tests.
type server struct {
	bin, dir string
	port     int
	dsn      string
	process  *exec.Cmd
	log      *bytes.Buffer
}

var errNoServer = errors.New("no mariadbd and mariadb-install-db on PATH or in /usr/sbin; " +
	"most tests take REDO_TEST_MYSQL as well")

// newServer makes a data directory below dir and starts a server on it. It refuses to run as root: there it runs as
// "mysql".
func newServer(dir string) (*server, error) {
	s := &server{bin: os.Getenv("REDO_TEST_MYSQL_SERVER"), dir: dir}
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
	args = append(args, "--datadir="+s.data())
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
	if s.port, err = freePort(); err != nil {
		return nil, err
	}
	s.dsn = fmt.Sprintf("root@tcp(127.0.0.1:%d)/", s.port)
	return s, s.start()
}

// find looks where Debian has it, too.
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

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

func (s *server) data() string { return filepath.Join(s.dir, "data") }

// start starts the server and waits until it accepts connections.
func (s *server) start() error {
	args := []string{"--no-defaults", "--datadir=" + s.data(), "--bind-address=127.0.0.1",
		fmt.Sprint("--port=", s.port), "--socket=" + filepath.Join(s.dir, "socket"),
		"--pid-file=" + filepath.Join(s.dir, "pid"), "--innodb-buffer-pool-size=64M", "--max-connections=400"}
	if os.Geteuid() == 0 {
		args = append(args, "--user=mysql")
	}
	s.log = &bytes.Buffer{}
	s.process = exec.Command(s.bin, args...)
	s.process.Dir, s.process.Stdout, s.process.Stderr = s.dir, s.log, s.log
	if err := s.process.Start(); err != nil {
		return err
	}
	db, err := sql.Open("mysql", s.dsn)
	if err != nil {
		return err
	}
	defer db.Close()
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
			_ = s.kill()
			return fmt.Errorf("%w: %w\n%s", ctx.Err(), err, s.log)
		}
	}
}

// kill ends the server with SIGKILL and waits until it is gone.
func (s *server) kill() error {
	if err := s.process.Process.Kill(); err != nil {
		return err
	}
	_ = s.process.Wait() // it was killed
	return nil
}

// newDir makes a directory that another user can be given, which one below t.TempDir's could not reach.
func newDir() (string, error) { return os.MkdirTemp("", "mysqlstore") }

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
		if err := s.kill(); err != nil {
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

// shared is the server that most tests use: the environment's, or a private one for the whole run.
var shared struct {
	dsn string
	err error
}

func TestMain(m *testing.M) {
	_ = mysql.SetLogger(&mysql.NopLogger{}) // the tests break connections
	os.Exit(withServer(m.Run))
}

func withServer(run func() int) int {
	if shared.dsn = os.Getenv("REDO_TEST_MYSQL"); shared.dsn != "" {
		return run()
	}
	dir, err := newDir()
	if err != nil {
		shared.err = err
		return run()
	}
	defer os.RemoveAll(dir)
	s, err := newServer(dir)
	if shared.err = err; err != nil {
		return run()
	}
	defer s.kill()
	shared.dsn = s.dsn
	return run()
}

// serverDSN is the shared server's; the test is skipped, or fails, where there is none.
func serverDSN(t testing.TB) string {
	t.Helper()
	if shared.err != nil {
		skip(t, shared.err)
	}
	return shared.dsn
}
