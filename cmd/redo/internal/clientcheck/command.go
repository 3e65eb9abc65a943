package clientcheck

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"
)

// The environment of a command. One run makes one call, and exits with 0 only if the call succeeded.
const (
	// EnvURL is the URL of the operation. The command sends POST with a JSON body to it.
	EnvURL = "REDO_URL"
	// EnvBaseURL is the origin of EnvURL, for SDKs that add their own path.
	EnvBaseURL = "REDO_BASE_URL"
	// EnvOperation names the operation. A command that is killed runs again with the same name.
	EnvOperation = "REDO_OPERATION"
	// EnvDir is a directory of the operation's own, empty at first. It outlives the command.
	EnvDir = "REDO_DIR"
)

// maxOutput is the number of bytes of a command's output that are kept.
const maxOutput = 2000

// A process is one run of the command.
type process struct {
	cmd    *exec.Cmd
	output tail
	ended  chan struct{} // closed when the command has ended
	sent   time.Time

	// These are valid when ended is closed.
	done   time.Time
	status int // -1 if a signal ended the command
	late   bool
}

// startProcess starts a command. The command is killed when ctx ends or limit has passed.
func startProcess(ctx context.Context, argv, env []string, limit time.Duration) (*process, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	p := &process{cmd: exec.CommandContext(ctx, argv[0], argv[1:]...), ended: make(chan struct{}), sent: time.Now()}
	p.cmd.Env = append(os.Environ(), env...)
	p.cmd.Stdout, p.cmd.Stderr = &p.output, &p.output
	p.cmd.WaitDelay = time.Second // for a grandchild that keeps the output open
	ownGroup(p.cmd)
	p.cmd.Cancel = func() error { return killGroup(p.cmd) }
	if err := p.cmd.Start(); err != nil {
		cancel()
		return nil, fmt.Errorf("start the command: %w", err)
	}
	go func() {
		defer close(p.ended)
		defer cancel()
		_ = p.cmd.Wait() // the status has the error
		p.done = time.Now()
		p.status = p.cmd.ProcessState.ExitCode()
		p.late = errors.Is(ctx.Err(), context.DeadlineExceeded)
	}()
	return p, nil
}

// kill kills the command with its children, and waits for its end.
func (p *process) kill() {
	_ = killGroup(p.cmd) // it may have ended already
	<-p.ended
}

// succeeded reports whether the command claims success.
func (p *process) succeeded() bool { return p.status == 0 }

func (p *process) String() string {
	switch {
	case p.late:
		return "killed at the time limit"
	case p.status < 0:
		return "killed"
	}
	return fmt.Sprintf("exit status %d", p.status)
}

// A tail keeps the last bytes that were written to it.
type tail struct {
	mu   sync.Mutex
	text []byte
}

func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, b...)
	t.text = t.text[max(0, len(t.text)-maxOutput):]
	return len(b), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.ToValidUTF8(string(t.text), "?")
}
