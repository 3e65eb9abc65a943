// Package mysqltest gives tests a MariaDB or MySQL: that of the environment variable REDO_TEST_MYSQL, or a private one.
// Without a server it skips the test. If REDO_TEST_REQUIRE is 1, the test fails instead.
package mysqltest

import (
	"os"
	"testing"

	"github.com/go-sql-driver/mysql"
)

// shared is the server of the environment, or a private one for the whole run.
var shared struct {
	dsn string
	err error
}

// Main runs the tests of a package with a shared server, and returns the exit code: call it from TestMain.
func Main(m *testing.M) int {
	_ = mysql.SetLogger(&mysql.NopLogger{}) // tests break connections
	if shared.dsn = os.Getenv("REDO_TEST_MYSQL"); shared.dsn != "" {
		return m.Run()
	}
	dir, err := newDir()
	if err != nil {
		shared.err = err
		return m.Run()
	}
	defer func() { _ = os.RemoveAll(dir) }()
	s, err := newServer(dir, nil)
	if shared.err = err; err != nil {
		return m.Run()
	}
	defer func() { _ = s.Kill() }()
	shared.dsn = s.DSN
	return m.Run()
}

// DSN returns the data source name of the shared server, without a database. It skips the test if there is no server.
func DSN(t testing.TB) string {
	t.Helper()
	if shared.err != nil {
		skip(t, shared.err)
	}
	return shared.dsn
}

// Private returns a server that the test may kill, started with more options. It skips the test if no server can be
// started.
func Private(t testing.TB, options ...string) *Server {
	t.Helper()
	dir, err := newDir()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	s, err := newServer(dir, options)
	if err != nil {
		skip(t, err)
	}
	t.Cleanup(func() {
		if err := s.Kill(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// newDir creates a directory that another user can own. That user could not reach one below t.TempDir.
func newDir() (string, error) { return os.MkdirTemp("", "mysqlstore") }

// skip skips the test, or fails it if services are required.
func skip(t testing.TB, why error) {
	t.Helper()
	if os.Getenv("REDO_TEST_REQUIRE") == "1" {
		t.Fatalf("REDO_TEST_REQUIRE is set: %v", why)
	}
	t.Skipf("needs a service: %v", why)
}
