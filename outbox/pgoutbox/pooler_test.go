package pgoutbox_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"
)

// poolSize is how many connections a pooler has to its server.
const poolSize = 5

var errNoPooler = errors.New("no pgbouncer on PATH or in /usr/sbin")

// A pooler is a private PgBouncer in transaction mode, which gives each transaction the connection that was idle for the
// longest: what a session has said before is with another one.
type pooler struct{ host string }

// newPooler starts a pooler before the server of a URL. It speaks to the server as the URL's user.
func newPooler(t testing.TB, url string) pooler {
	t.Helper()
	bin, err := exec.LookPath("pgbouncer")
	if err != nil {
		if bin, err = exec.LookPath("/usr/sbin/pgbouncer"); err != nil {
			if os.Getenv("REDO_TEST_REQUIRE") == "1" {
				t.Fatalf("REDO_TEST_REQUIRE is set: %v", errNoPooler)
			}
			t.Skipf("needs a transaction pooler: %v", errNoPooler)
		}
	}
	cfg, err := pgconn.ParseConfig(url)
	require.NoError(t, err)
	dir, err := newDir()
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	// Another program may take the port between its choice and its use.
	var said []byte
	for range 5 {
		port, err := freePort()
		require.NoError(t, err)
		p := pooler{fmt.Sprintf("127.0.0.1:%d", port)}
		out, err := os.Create(filepath.Join(dir, "log"))
		require.NoError(t, err)
		defer out.Close()
		cmd := exec.Command(bin, writeSettings(t, dir, port, cfg))
		cmd.Dir, cmd.Stdout, cmd.Stderr = dir, out, out
		if os.Geteuid() == 0 { // like Postgres it refuses to run as root
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: credential(t, "postgres")}
		}
		require.NoError(t, cmd.Start())
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
	return pooler{}
}

// writeSettings writes a configuration file, which may hold the server's password, and returns its path.
func writeSettings(t testing.TB, dir string, port int, to *pgconn.Config) string {
	t.Helper()
	server := fmt.Sprint("port=", to.Port)
	for _, part := range [][2]string{{"host", to.Host}, {"dbname", to.Database}, {"user", to.User}, {"password", to.Password}} {
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
`, server, port, poolSize)
	path := filepath.Join(dir, "pgbouncer.ini")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	if os.Geteuid() == 0 {
		require.NoError(t, give(dir, "postgres"))
		require.NoError(t, give(path, "postgres"))
	}
	return path
}

func credential(t testing.TB, name string) *syscall.Credential {
	t.Helper()
	u, err := user.Lookup(name)
	require.NoError(t, err)
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	require.NoError(t, err)
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	require.NoError(t, err)
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
}

// url is a connection string by way of the pooler, in an execution mode of pgx's.
func (p pooler) url(mode string) string {
	return fmt.Sprintf("postgres://anybody@%s/pooled?sslmode=disable&default_query_exec_mode=%s", p.host, mode)
}

// answers waits until the pooler has let somebody through to its server, or has ended.
func (p pooler) answers(ended <-chan struct{}) bool {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	for {
		conn, err := pgx.Connect(ctx, p.url("exec"))
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
