// Package dbserver starts private database servers on the loopback interface, which a program may kill and stop:
// Redis, Postgres and MariaDB. It uses the installed programs, and runs on Unix systems.
package dbserver

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
	"time"

	"github.com/redo-go/redo/internal/freeport"
)

// A Server is a running database server. Its methods are not safe for concurrent use.
type Server struct {
	// URL is the address for the store of this engine.
	URL string

	dir     string
	command func() *exec.Cmd
	ready   func(ctx context.Context) error
	cmd     *exec.Cmd
	ended   chan struct{} // closed when the process has ended
}

// ErrMissing means that the programs of an engine are not installed.
var ErrMissing = errors.New("not installed")

// startLimit bounds a start, with the recovery after a kill.
const startLimit = time.Minute

// Start starts the server again after Kill, on the same files and address. It returns when the server accepts
// connections.
func (s *Server) Start() error {
	ctx, cancel := context.WithTimeout(context.Background(), startLimit)
	defer cancel()
	for {
		err := s.begin(ctx)
		if err == nil || ctx.Err() != nil {
			return err
		}
		// Processes of the server that was killed may still hold its files.
		if err := pause(ctx, 100*time.Millisecond); err != nil {
			return err
		}
	}
}

// begin starts the process once. It fails if the process ends.
func (s *Server) begin(ctx context.Context) error {
	log, err := os.OpenFile(s.log(), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()
	s.cmd = s.command()
	s.cmd.Dir, s.cmd.Stdout, s.cmd.Stderr = s.dir, log, log
	if err := s.cmd.Start(); err != nil {
		return err
	}
	cmd, ended := s.cmd, make(chan struct{})
	s.ended = ended
	go func() {
		_ = cmd.Wait() // its state says how it ended
		close(ended)
	}()
	for {
		select {
		case <-ended:
			text, _ := os.ReadFile(s.log())
			return fmt.Errorf("%s ended: %v\n%s", cmd.Path, cmd.ProcessState, text[max(0, len(text)-2000):])
		default:
		}
		err := s.ready(ctx)
		if err == nil {
			return nil
		}
		if over := pause(ctx, 20*time.Millisecond); over != nil {
			return errors.Join(err, over, s.Kill())
		}
	}
}

func (s *Server) log() string { return filepath.Join(s.dir, "server.log") }

// Kill sends SIGKILL to the server and its children, and waits until the server has ended.
func (s *Server) Kill() error {
	err := s.signal(syscall.SIGKILL)
	select {
	case <-s.ended:
	case <-time.After(10 * time.Second):
		err = errors.Join(err, fmt.Errorf("%s does not end", s.cmd.Path))
	}
	return err
}

// Stop sends SIGSTOP to the server and its children.
func (s *Server) Stop() error { return s.signal(syscall.SIGSTOP) }

// Continue sends SIGCONT to the server and its children.
func (s *Server) Continue() error { return s.signal(syscall.SIGCONT) }

// Close kills the server and removes its files.
func (s *Server) Close() error { return errors.Join(s.Kill(), os.RemoveAll(s.dir)) }

// signal reaches the server first, so that it starts no more children.
func (s *Server) signal(to syscall.Signal) error {
	pid := s.cmd.Process.Pid
	children := childrenOf(pid)
	err := s.cmd.Process.Signal(to)
	for _, child := range append(children, childrenOf(pid)...) {
		_ = syscall.Kill(child, to) // it may have ended
	}
	if errors.Is(err, os.ErrProcessDone) {
		return nil
	}
	return err
}

// childrenOf returns the children of a process. It returns none where /proc does not list them.
func childrenOf(pid int) (children []int) {
	lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, list := range lists {
		text, _ := os.ReadFile(list)
		for _, word := range strings.Fields(string(text)) {
			if child, err := strconv.Atoi(word); err == nil {
				children = append(children, child)
			}
		}
	}
	return children
}

// newDir creates the server's directory. A program that runs as root gives it to the user.
func newDir(owner string) (string, error) {
	dir, err := os.MkdirTemp("", "redo-engine-")
	if err != nil || os.Geteuid() != 0 || owner == "" {
		return dir, err
	}
	as, err := credential(owner)
	if err != nil {
		return "", errors.Join(err, os.RemoveAll(dir))
	}
	return dir, os.Chown(dir, int(as.Uid), int(as.Gid))
}

// credential returns the ids of a user.
func credential(name string) (*syscall.Credential, error) {
	u, err := user.Lookup(name)
	if err != nil {
		return nil, err
	}
	uid, err1 := strconv.ParseUint(u.Uid, 10, 32)
	gid, err2 := strconv.ParseUint(u.Gid, 10, 32)
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, errors.Join(err1, err2)
}

// Find returns the path of the first program that is on PATH or in a directory of Debian's servers.
func Find(names ...string) (string, error) {
	for _, name := range names {
		for _, path := range []string{name, "/usr/sbin/" + name, "/usr/bin/" + name} {
			if found, err := exec.LookPath(path); err == nil {
				return found, nil
			}
		}
	}
	return "", fmt.Errorf("%s: %w", strings.Join(names, ", "), ErrMissing)
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// launch starts a new server. Another program may take the port between its choice and its use, so it tries several.
// It removes the directory if that fails.
func launch(s *Server, listen func(port int)) (*Server, error) {
	ctx, cancel := context.WithTimeout(context.Background(), startLimit)
	defer cancel()
	var err error
	for range 3 {
		var port int
		if port, err = freeport.Port(); err != nil {
			break
		}
		listen(port)
		if err = s.begin(ctx); err == nil {
			return s, nil
		}
	}
	return nil, errors.Join(err, os.RemoveAll(s.dir))
}
