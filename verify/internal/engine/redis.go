package engine

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"strconv"
	"time"
)

// Redis starts a Redis or a Valkey that writes each change to its log before it responds.
func Redis() (*Server, error) {
	binary, err := find("redis-server", "valkey-server")
	if err != nil {
		return nil, err
	}
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	dir, err := newDir("")
	if err != nil {
		return nil, err
	}
	return launch(&Server{
		URL: fmt.Sprintf("redis://127.0.0.1:%d/0", port),
		dir: dir,
		command: func() *exec.Cmd {
			return exec.Command(binary, "--port", strconv.Itoa(port), "--bind", "127.0.0.1", "--dir", dir, "--save", "",
				"--appendonly", "yes", "--appendfsync", "always", "--maxmemory-policy", "noeviction")
		},
		ready: func(ctx context.Context) error { return pong(ctx, port) },
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
