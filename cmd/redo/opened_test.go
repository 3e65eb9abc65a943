package main

import (
	"bytes"
	"context"
	"database/sql"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// listening returns the address of a server that accepts connections and hands each one to serve.
func listening(t *testing.T, serve func(net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var conns []net.Conn
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			conns = append(conns, conn)
			serve(conn)
		}
	}()
	t.Cleanup(func() {
		_ = l.Close()
		<-done
		for _, conn := range conns {
			_ = conn.Close()
		}
	})
	return l.Addr().String()
}

func silent(net.Conn) {}

func TestOpeningAStoreHasATimeLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, err := opened(t.Context(), "mysql://ana:hush@db/shop?password=hush", mySQL,
			func(ctx context.Context) (recordStore, error) {
				<-ctx.Done()
				return nil, ctx.Err()
			})
		require.EqualError(t, err, "opening mysql://***@db/shop?***: gave up after 10s, because MySQL did not respond: "+
			"context deadline exceeded")
		require.ErrorIs(t, err, context.DeadlineExceeded)
	})
}

func TestACommandGivesUpOnASilentServer(t *testing.T) {
	address := listening(t, silent)
	for url, want := range map[string]string{
		"mysql://u:hush@" + address + "/db":    "because MySQL did not respond",
		"postgres://u:hush@" + address + "/db": "because Postgres did not respond",
		"redis://:hush@" + address + "/0":      "because Redis did not respond",
		"rediss://:hush@" + address + "/0?dial_timeout=500ms": "because Redis did not respond: redis: the TLS handshake " +
			"failed (the URL of a server without TLS begins with redis://): context deadline exceeded",
	} {
		commands := [][]string{{"ops", "list", url}, {"find", url, "k1"}, {"console", url}}
		if strings.HasPrefix(url, "postgres") {
			commands = append(commands, []string{"events", "list", url}, []string{"inbox", "list", url})
		}
		for _, args := range commands {
			t.Run(strings.Join(args, " "), func(t *testing.T) {
				t.Parallel()
				ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
				defer cancel()
				var out bytes.Buffer
				require.Equal(t, exitFailed, run(ctx, args, terminal{out: &out, err: &out}), out.String())
				scheme, _, _ := strings.Cut(url, "://")
				require.Contains(t, out.String(), "redo: opening "+scheme+"://***@"+address+"/")
				require.Contains(t, out.String(), want)
				require.NotContains(t, out.String(), "hush")
				require.Equal(t, 1, strings.Count(out.String(), "\n"), out.String())
			})
		}
	}
}

func TestAWrongSchemeForTLSIsNamed(t *testing.T) {
	for name, c := range map[string]struct {
		scheme string
		serve  func(net.Conn)
		want   string
	}{
		"TLS to a server that responds in plain text": {
			"rediss", func(conn net.Conn) { _, _ = conn.Write([]byte("-ERR unknown command\r\n")) },
			"redis: the TLS handshake failed (the URL of a server without TLS begins with redis://)",
		},
		"plain text to a server that closes such connections": {
			"redis", func(conn net.Conn) { _ = conn.Close() }, "(the URL of a server with TLS begins with rediss://)",
		},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			url := c.scheme + "://:hush@" + listening(t, c.serve) + "/0"
			require.Equal(t, exitFailed, run(t.Context(), []string{"ops", "list", url}, terminal{out: &out, err: &out}))
			require.Contains(t, out.String(), c.want)
			require.NotContains(t, out.String(), "hush")
		})
	}
}

func TestALockedSQLiteFileIsNamed(t *testing.T) {
	file, _, open := engines[sqliteFile](t)
	st, err := open()
	require.NoError(t, err)
	require.NoError(t, st.Close())
	db, err := sql.Open("sqlite", "file:"+file+"?_pragma=locking_mode(EXCLUSIVE)")
	require.NoError(t, err)
	defer db.Close()
	_, err = db.Exec("CREATE TABLE other (x)")
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second/4)
	defer cancel()
	var out bytes.Buffer
	require.Equal(t, exitFailed, run(ctx, []string{"records", "list", file}, terminal{out: &out, err: &out}))
	require.Contains(t, out.String(), "redo: opening the file ")
	require.Contains(t, out.String(), "because another process holds the lock of the file: ")
}
