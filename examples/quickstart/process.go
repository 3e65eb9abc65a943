package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"
)

// patience is how long the story waits for a process to say what it is to say.
const patience = 20 * time.Second

// A process is another copy of this program. What it says goes to the timeline.
type process struct {
	cmd    *exec.Cmd
	role   string
	stderr strings.Builder
	ended  chan struct{}
	upAt   chan string
	holds  chan struct{}
	marks  chan struct{}
	once   sync.Once
}

func start(t *timeline, args ...string) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	p := &process{
		cmd: exec.Command(self, args...), role: args[0],
		ended: make(chan struct{}), upAt: make(chan string, 1), holds: make(chan struct{}, 1), marks: make(chan struct{}, 1),
	}
	p.cmd.Stderr = &p.stderr
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		defer close(p.ended)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			var e event
			if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
				e = event{At: time.Now(), Actor: p.role, Text: lines.Text()}
			}
			p.hear(t, e)
		}
	}()
	return p, nil
}

func (p *process) hear(t *timeline, e event) {
	if e.Text != "" {
		t.add(e)
	}
	switch {
	case e.Address != "":
		p.upAt <- e.Address
	case e.Held:
		p.holds <- struct{}{}
	case e.Mark:
		p.marks <- struct{}{}
	}
}

// up waits until the service listens, and returns where.
func (p *process) up() (string, error) {
	select {
	case a := <-p.upAt:
		return a, nil
	case <-p.ended:
		_ = p.cmd.Wait()
		return "", fmt.Errorf("the service did not start: %s", p.stderr.String())
	case <-time.After(patience):
		return "", errors.New("the service did not start in time")
	}
}

// held waits until the service has applied an effect whose answer is still under way.
func (p *process) held() error {
	select {
	case <-p.holds:
		return nil
	case <-time.After(patience):
		return errors.New("the effect was not applied in time")
	}
}

// marked waits until all that the service said has been heard.
func (p *process) marked() {
	select {
	case <-p.marks:
	case <-time.After(patience):
	}
}

// wait waits for the process to end by itself.
func (p *process) wait() error {
	select {
	case <-p.ended:
	case <-time.After(patience):
		p.kill()
		return fmt.Errorf("the %s did not end in time", p.role)
	}
	if err := p.cmd.Wait(); err != nil {
		return fmt.Errorf("the %s: %w: %s", p.role, err, strings.TrimSpace(p.stderr.String()))
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
