package main

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"time"
)

// A process is another copy of this program, which serves.
type process struct {
	cmd   *exec.Cmd
	ended chan struct{}
}

// start returns when the service listens.
func (c *campaign) start(ctx context.Context) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	var said bytes.Buffer
	p := &process{
		cmd:   exec.Command(self, "serve", c.mode.name, c.address, c.url, c.schema),
		ended: make(chan struct{}),
	}
	p.cmd.Stderr = &said
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		defer close(p.ended)
		_ = p.cmd.Wait()
	}()
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	for {
		conn, err := net.Dial("tcp", c.address)
		if err == nil {
			return p, conn.Close()
		}
		select {
		case <-time.After(2 * time.Millisecond):
		case <-p.ended:
			return nil, fmt.Errorf("the service did not start: %s", strings.TrimSpace(said.String()))
		case <-ctx.Done():
			p.kill()
			return nil, fmt.Errorf("the service did not listen: %w", ctx.Err())
		}
	}
}

// kill sends SIGKILL: the process gets no chance to tidy up.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	<-p.ended
}

// freeAddress returns an address of the loopback interface that nobody listens on.
func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}
