package stage

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"
)

// Patience is the longest time that a parent waits for a report or a result.
const Patience = 20 * time.Second

// part is the argument of a program that is started as a part.
const part = "stage-part"

// A Process is a part that was started. Its methods are not safe for concurrent use.
type Process struct {
	// Ended is closed when the process has ended.
	Ended <-chan struct{}

	name    string
	cmd     *exec.Cmd
	in      io.WriteCloser
	stderr  strings.Builder // complete when Ended is closed
	up      chan string
	held    chan string
	answers chan answer
	reap    func() error // waits for the process once
}

// An answer holds the result of a command.
type answer struct {
	Value json.RawMessage `json:"value,omitempty"`
	Error string          `json:"error,omitempty"`
}

// Start starts a part of this program. Its reports go to t, which may be nil.
func Start(t *Timeline, name string, role any) (*Process, error) {
	return StartProgram("", t, name, role)
}

// StartProgram starts a part of the program at path. Empty means this program.
func StartProgram(path string, t *Timeline, name string, role any) (*Process, error) {
	if path == "" {
		var err error
		if path, err = os.Executable(); err != nil {
			return nil, err
		}
	}
	ended := make(chan struct{})
	p := &Process{
		Ended: ended, name: name, cmd: exec.Command(path, part),
		up: make(chan string, 1), held: make(chan string, 1), answers: make(chan answer, 1),
	}
	p.cmd.Stderr = &p.stderr
	p.reap = sync.OnceValue(p.cmd.Wait)
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		defer close(ended)
		p.listen(t, out)
	}()
	if err := json.NewEncoder(p.in).Encode(role); err != nil {
		p.Kill()
		return nil, p.failed(err)
	}
	return p, nil
}

// listen reads messages until the process closes its output.
func (p *Process) listen(t *Timeline, out io.Reader) {
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<24)
	for lines.Scan() {
		var m message
		if err := json.Unmarshal(lines.Bytes(), &m); err != nil {
			continue // a killed process may leave half a line
		}
		if m.Text != "" && t != nil {
			m.pid = p.cmd.Process.Pid
			t.add(m)
		}
		switch {
		case m.Up:
			p.up <- m.Address
		case m.Held:
			p.held <- m.Text
		case m.Answer != nil:
			p.answers <- *m.Answer
		}
	}
}

// Up waits until the part has started, and returns its address.
func (p *Process) Up() (string, error) { return await(p, p.up, "it was up") }

// Held waits until the part holds a response back.
func (p *Process) Held() error {
	_, err := await(p, p.held, "it held a response back")
	return err
}

// Ask sends a command to the part and returns its result. All earlier reports of the part are on the timeline
// then. The empty command has no result.
func Ask[T any](p *Process, command string) (value T, err error) {
	if _, err := fmt.Fprintln(p.in, command); err != nil {
		return value, p.failed(err)
	}
	a, err := await(p, p.answers, "it ran "+command)
	switch {
	case err != nil:
		return value, err
	case a.Error != "":
		return value, errors.New(a.Error)
	case a.Value != nil:
		err = json.Unmarshal(a.Value, &value)
	}
	return value, err
}

// await returns the next value of a channel.
func await[T any](p *Process, from <-chan T, event string) (value T, err error) {
	select {
	case value = <-from:
		return value, nil
	case <-p.Ended:
		return value, fmt.Errorf("before %s: %w", event, p.failed(cmp.Or(p.reap(), errors.New("it has ended"))))
	case <-time.After(Patience):
		return value, p.failed(fmt.Errorf("%v have passed before %s", Patience, event))
	}
}

// Wait waits for the process to end. A process that does not end is killed.
func (p *Process) Wait() error {
	select {
	case <-p.Ended:
	case <-time.After(2 * Patience):
		p.Kill()
		return p.failed(errors.New("it did not end"))
	}
	if err := p.reap(); err != nil {
		return p.failed(err)
	}
	return nil
}

// Kill sends SIGKILL and waits for the process to end. It may be called again.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill() // it may have ended already
	<-p.Ended
	_ = p.reap()
}

// Signal sends a signal to the process, such as SIGSTOP. It returns an error if the process has ended.
func (p *Process) Signal(s os.Signal) error { return p.cmd.Process.Signal(s) }

// failed adds the part's name, and its standard error if it has ended.
func (p *Process) failed(err error) error {
	select {
	case <-p.Ended:
		_ = p.reap()
		return fmt.Errorf("the %s: %w: %s", p.name, err, strings.TrimSpace(p.stderr.String()))
	default:
		return fmt.Errorf("the %s: %w", p.name, err)
	}
}
