package verify

import (
	"flag"
	"fmt"
	"os"
	"strconv"
	"sync"
	"testing"

	"github.com/redo-go/redo/verify/internal/dbserver"
)

// A service is a server that the tests need. The environment names one, or else a private one is started from the
// installed programs. A private one serves the whole run and is stopped after it. Each test uses different names
// on it.
type service struct {
	variable string
	start    func() (*dbserver.Server, error)

	once   sync.Once
	server *dbserver.Server
	err    error
}

var (
	// No test kills this Redis, so it needs no log.
	redis = service{
		variable: "REDO_TEST_REDIS",
		start:    func() (*dbserver.Server, error) { return dbserver.Redis("--appendonly", "no") },
	}
	postgres = service{variable: "REDO_TEST_POSTGRES", start: dbserver.Postgres}
	mariadb  = service{variable: "REDO_TEST_MYSQL", start: dbserver.MariaDB}
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
	s.once.Do(func() { s.server, s.err = s.start() })
	if s.err != nil {
		if os.Getenv("REDO_TEST_REQUIRE") == "1" {
			t.Fatalf("REDO_TEST_REQUIRE is set: %v", s.err)
		}
		t.Skipf("needs %s, or a server that is installed: %v", s.variable, s.err)
	}
	return s.server.URL
}

func (s *service) end() error {
	if s.server == nil {
		return nil
	}
	return s.server.Close()
}
