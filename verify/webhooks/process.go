package main

import (
	"bufio"
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

// patience is how long the stage waits for a process to say what it is to say.
const patience = 20 * time.Second

// A process is another copy of this program. What it says goes to the timeline.
type process struct {
	cmd     *exec.Cmd
	role    string
	in      io.WriteCloser
	stderr  strings.Builder
	ended   chan struct{}
	up      chan string
	held    chan struct{}
	answers chan answer
	once    sync.Once
}

func start(t *timeline, r role) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	p := &process{
		cmd: exec.Command(self, "process"), role: r.Name, ended: make(chan struct{}),
		up: make(chan string, 1), held: make(chan struct{}, 1), answers: make(chan answer, 1),
	}
	p.cmd.Stderr = &p.stderr
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
		defer close(p.ended)
		lines := bufio.NewScanner(out)
		lines.Buffer(nil, 1<<24)
		for lines.Scan() {
			var w word
			if err := json.Unmarshal(lines.Bytes(), &w); err == nil { // a killed process may leave half a line
				p.hear(t, w)
			}
		}
	}()
	if err := json.NewEncoder(p.in).Encode(r); err != nil {
		p.kill()
		return nil, fmt.Errorf("the %s: %w: %s", r.Name, err, p.complaint())
	}
	return p, nil
}

func (p *process) hear(t *timeline, w word) {
	if w.Text != "" {
		t.add(w)
	}
	switch {
	case w.Up:
		p.up <- w.Address
	case w.Held:
		p.held <- struct{}{}
	case w.Answer != nil:
		p.answers <- *w.Answer
	}
}

// await returns what the process says on one of its channels.
func await[T any](p *process, from <-chan T, what string) (T, error) {
	var none T
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case v := <-from:
		return v, nil
	case <-p.ended:
		_ = p.cmd.Wait()
		return none, fmt.Errorf("the %s ended before %s: %s", p.role, what, p.complaint())
	case <-timer.C:
		return none, fmt.Errorf("the %s took too long: %s", p.role, what)
	}
}

// ask gives the process a command. Whatever it has said before has been heard when this returns.
func (p *process) ask(command string) (answer, error) {
	if _, err := fmt.Fprintln(p.in, command); err != nil {
		return answer{}, fmt.Errorf("the %s can't be asked: %w", p.role, err)
	}
	a, err := await(p, p.answers, "its answer to "+command)
	if err == nil && a.Error != "" {
		err = errors.New(a.Error)
	}
	return a, err
}

// wait waits for the process to end by itself.
func (p *process) wait() error {
	timer := time.NewTimer(2 * patience)
	defer timer.Stop()
	select {
	case <-p.ended:
	case <-timer.C:
		p.kill()
		return fmt.Errorf("the %s did not end in time", p.role)
	}
	if err := p.cmd.Wait(); err != nil {
		return fmt.Errorf("the %s: %w: %s", p.role, err, p.complaint())
	}
	return nil
}

// kill sends SIGKILL: the process gets no chance to tidy up.
func (p *process) kill() {
	p.once.Do(func() {
		_ = p.cmd.Process.Kill()
		<-p.ended
		_ = p.cmd.Wait()
	})
}

// complaint is what the process wrote before it ended.
func (p *process) complaint() string { return strings.TrimSpace(p.stderr.String()) }
