package pgtest

import (
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

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/redo-go/redo/internal/freeport"
)

// PoolSize is the number of connections of a pooler to its server.
const PoolSize = 5

var errNoPooler = errors.New("no pgbouncer on PATH or in /usr/sbin")

// A Pooler is a private PgBouncer in transaction mode. It gives each transaction the connection that was idle for the
// longest time, so that two transactions of a session seldom share one.
type Pooler struct{ host string }

// NewPooler starts a pooler in front of the server of a URL, and stops it when the test ends. It connects as the URL's
// user.
func NewPooler(t testing.TB, url string) Pooler {
	t.Helper()
	bin, err := exec.LookPath("pgbouncer")
	if err != nil {
		if bin, err = exec.LookPath("/usr/sbin/pgbouncer"); err != nil {
			Skip(t, errNoPooler)
		}
	}
	cfg, err := pgconn.ParseConfig(url)
	must(t, err)
	dir, err := newDir()
	must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	// Another program may take the port between its choice and its use.
	var said []byte
	for range 5 {
		port, err := freeport.Port()
		must(t, err)
		p := Pooler{fmt.Sprintf("127.0.0.1:%d", port)}
		out, err := os.Create(filepath.Join(dir, "log"))
		must(t, err)
		defer func() { _ = out.Close() }()
		cmd := exec.Command(bin, writeSettings(t, dir, port, cfg))
		cmd.Dir, cmd.Stdout, cmd.Stderr = dir, out, out
		if os.Geteuid() == 0 { // like Postgres it refuses to run as root
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: credential(t, "postgres")}
		}
		must(t, cmd.Start())
		ended := make(chan struct{})
		go func() {
			_ = cmd.Wait()
			close(ended)
		}()
		if p.answers(ended) {
			t.Cleanup(func() {
				_ = cmd.Process.Kill()
				<-ended
			})
			return p
		}
		_ = cmd.Process.Kill()
		<-ended
		said, _ = os.ReadFile(out.Name())
	}
	t.Fatalf("pgbouncer does not start:\n%s", said)
	return Pooler{}
}

// writeSettings writes a configuration file, which may hold the server's password, and returns its path.
func writeSettings(t testing.TB, dir string, port int, to *pgconn.Config) string {
	t.Helper()
	server := fmt.Sprint("port=", to.Port)
	for _, part := range [][2]string{
		{"host", to.Host}, {"dbname", to.Database}, {"user", to.User}, {"password", to.Password},
	} {
		if part[1] != "" {
			server += " " + part[0] + "='" + strings.ReplaceAll(part[1], "'", "''") + "'"
		}
	}
	text := fmt.Sprintf(`[databases]
pooled = %s
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %d
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = %d
max_client_conn = 400
server_round_robin = 1
server_tls_sslmode = prefer
`, server, port, PoolSize)
	path := filepath.Join(dir, "pgbouncer.ini")
	must(t, os.WriteFile(path, []byte(text), 0o600))
	if os.Geteuid() == 0 {
		must(t, give(dir, "postgres"))
		must(t, give(path, "postgres"))
	}
	return path
}

func credential(t testing.TB, name string) *syscall.Credential {
	t.Helper()
	u, err := user.Lookup(name)
	must(t, err)
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	must(t, err)
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	must(t, err)
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
}

// URL returns a connection string through the pooler, in an execution mode of pgx.
func (p Pooler) URL(mode string) string {
	return fmt.Sprintf("postgres://anybody@%s/pooled?sslmode=disable&default_query_exec_mode=%s", p.host, mode)
}

// answers waits until a client reaches the server through the pooler, or the pooler has ended.
func (p Pooler) answers(ended <-chan struct{}) bool {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	for {
		conn, err := pgx.Connect(ctx, p.URL("exec"))
		if err == nil {
			err = conn.Ping(ctx)
			_ = conn.Close(ctx)
		}
		if err == nil {
			return true
		}
		select {
		case <-ended:
			return false
		case <-ctx.Done():
			return false
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// Waiting returns how many clients wait for a connection to the server.
func (p Pooler) Waiting(t testing.TB) int {
	t.Helper()
	conn, err := pgconn.Connect(
		context.Background(),
		fmt.Sprintf("postgres://anybody@%s/pgbouncer?sslmode=disable", p.host),
	)
	must(t, err)
	defer func() { _ = conn.Close(context.Background()) }()
	results, err := conn.Exec(context.Background(), "SHOW POOLS").ReadAll()
	must(t, err)
	column := slices.IndexFunc(
		results[0].FieldDescriptions,
		func(f pgconn.FieldDescription) bool { return f.Name == "cl_waiting" },
	)
	n := 0
	for _, row := range results[0].Rows {
		waiting, err := strconv.Atoi(string(row[column]))
		must(t, err)
		n += waiting
	}
	return n
}
