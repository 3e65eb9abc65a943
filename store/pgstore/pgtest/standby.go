package pgtest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// NewStandby starts a streaming standby of the server, and stops it when the test ends.
func NewStandby(t testing.TB, primary *Server) *Server {
	t.Helper()
	if _, err := os.Stat(filepath.Join(primary.bin, "pg_basebackup")); err != nil {
		Skip(t, err)
	}
	dir, err := newDir()
	must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if os.Geteuid() == 0 {
		must(t, give(dir, "postgres"))
	}
	s := &Server{bin: primary.bin, dir: dir}
	must(
		t,
		s.run("pg_basebackup", "-d", primary.URL, "-D", s.Cluster(), "-R", "-X", "stream", "-c", "fast", "--no-sync"),
	)
	must(t, s.startSomewhere())
	t.Cleanup(func() { must(t, s.Stop()) })
	return s
}

// Promote makes a standby a primary.
func (s *Server) Promote(t testing.TB) {
	t.Helper()
	must(t, s.run("pg_ctl", "-D", s.Cluster(), "-w", "-t", "60", "promote"))
}

// Configure changes a setting of the running server.
func (s *Server) Configure(t testing.TB, setting, value string) {
	t.Helper()
	conn := Connect(t, s.URL)
	Exec(t, conn, fmt.Sprintf("ALTER SYSTEM SET %s = '%s'", setting, value))
	Exec(t, conn, "SELECT pg_reload_conf()")
}

// Until waits until a query of the server returns true, and fails the test after 30 s.
func (s *Server) Until(t testing.TB, query string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !s.holds(ctx, query) {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("not true within 30 s: %s", query)
		}
	}
}

func (s *Server) holds(ctx context.Context, query string) bool {
	conn, err := pgx.Connect(ctx, s.URL)
	if err != nil {
		return false
	}
	defer func() { _ = conn.Close(ctx) }()
	var yes bool
	return conn.QueryRow(ctx, query).Scan(&yes) == nil && yes
}

// CatchUp waits until the standby has replayed everything that the primary has written.
func (s *Server) CatchUp(t testing.TB, primary *Server) {
	t.Helper()
	var written string
	must(t, Connect(t, primary.URL).QueryRow(context.Background(), "SELECT pg_current_wal_lsn()::text").Scan(&written))
	s.Until(t, "SELECT pg_last_wal_replay_lsn() >= '"+written+"'")
}

// CutOff keeps the standby from receiving any further writes.
func (s *Server) CutOff(t testing.TB) {
	t.Helper()
	s.Configure(t, "primary_conninfo", "")
	s.Until(t, "SELECT NOT EXISTS (SELECT FROM pg_stat_wal_receiver)")
}
