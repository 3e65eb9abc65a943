package dbserver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"time"
)

// Redis starts the server that REDO_TEST_REDIS_SERVER names, or else an installed Redis or Valkey. It writes each
// change to its log before it responds, unless the arguments change that.
func Redis(args ...string) (*Server, error) {
	names := []string{"redis-server", "valkey-server"}
	if name := os.Getenv("REDO_TEST_REDIS_SERVER"); name != "" {
		names = []string{name}
	}
	binary, err := Find(names...)
	if err != nil {
		return nil, err
	}
	dir, err := newDir("")
	if err != nil {
		return nil, err
	}
	s := &Server{dir: dir}
	return launch(s, func(port int) {
		s.URL = fmt.Sprintf("redis://127.0.0.1:%d/0", port)
		s.command = func() *exec.Cmd {
			return exec.Command(binary, append([]string{
				"--port", strconv.Itoa(port), "--bind", "127.0.0.1", "--dir", dir, "--save", "",
				"--appendonly", "yes", "--appendfsync", "always", "--maxmemory-policy", "noeviction",
			}, args...)...)
		}
		s.ready = func(ctx context.Context) error { return pong(ctx, port) }
	})
}

// pong returns nil if Redis has loaded its files.
func pong(ctx context.Context, port int) error {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(time.Second))
	if _, err := fmt.Fprint(conn, "PING\r\n"); err != nil {
		return err
	}
	reply := make([]byte, 5)
	if _, err := conn.Read(reply); err != nil {
		return err
	}
	if string(reply) != "+PONG" {
		return errors.New("redis is not ready")
	}
	return nil
}
