package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"
)

// A searcher searches with targets. The directory has the programs it compiles and the inputs it finds.
type searcher struct {
	dir    string
	length time.Duration // the processor time for each target, over all runs

	building sync.Mutex // the compiler uses every core by itself
}

// search searches with the target until length has passed on the clock. Its progress counts the processor time, which
// is less on a busy machine.
func (s *searcher) search(ctx context.Context, t target, length time.Duration) (progress, error) {
	program, err := s.build(ctx, t.dir, "search", "-fuzz=Fuzz") // with the instrumentation that guides the search
	if err != nil {
		return progress{}, err
	}
	inputs, err := filepath.Abs(filepath.Dir(s.inputs(t)))
	if err != nil {
		return progress{}, err
	}
	cmd := exec.CommandContext(ctx, program, "-test.run=^$", "-test.fuzz=^"+t.name+"$", "-test.fuzztime="+length.String(),
		"-test.fuzzminimizetime=10x", "-test.fuzzcachedir="+inputs, "-test.parallel=1")
	cmd.Dir = t.dir
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // it prints how far it came
	cmd.WaitDelay = 10 * time.Second
	out, err := cmd.CombinedOutput()
	p, parsed := parseProgress(string(out))
	if cmd.ProcessState != nil {
		p.time = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime() // those of its workers included
	}
	switch {
	case parsed != nil:
		return progress{}, errors.Join(err, fmt.Errorf("%w:\n%s", parsed, out))
	case err != nil && ctx.Err() == nil && !timeUp(string(out)):
		return p, fmt.Errorf("%w:\n%s", err, out)
	}
	return p, nil
}

// timeUp reports whether the engine failed for the only reason that its time ended while it minimized an input.
func timeUp(out string) bool {
	return strings.Contains(out, "context deadline exceeded") && !strings.Contains(out, "Failing input")
}

// inputs is the directory of the inputs that the search found.
func (s *searcher) inputs(t target) string {
	return filepath.Join(s.dir, "inputs", t.dir, t.name)
}

// build compiles the tests of the package in dir, once for each kind, and returns the program's absolute path.
func (s *searcher) build(ctx context.Context, dir, kind string, flags ...string) (string, error) {
	program, err := filepath.Abs(filepath.Join(s.dir, kind, dir, "tests"))
	if err != nil {
		return "", err
	}
	s.building.Lock()
	defer s.building.Unlock()
	args := append([]string{"test", "-C", dir, "-c", "-o", program}, flags...)
	cmd := exec.CommandContext(ctx, "go", append(args, ".")...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("compiling the tests: %w\n%s", err, bytes.TrimSpace(out))
	}
	return program, nil
}

// A progress is how far the searches with a target came.
type progress struct {
	time       time.Duration // of a processor
	executions int64
	inputs     int64 // that reached something new
}

func (p progress) plus(q progress) progress {
	return progress{p.time + q.time, p.executions + q.executions, p.inputs + q.inputs}
}

var progressLine = regexp.MustCompile(`fuzz: elapsed: .*, execs: (\d+) .*new interesting: (\d+)`)

// parseProgress reads the counts in the last line of progress that the engine printed.
func parseProgress(out string) (progress, error) {
	lines := progressLine.FindAllStringSubmatch(out, -1)
	if len(lines) == 0 {
		return progress{}, errors.New("the search printed no progress")
	}
	last := lines[len(lines)-1]
	executions, err := strconv.ParseInt(last[1], 10, 64)
	if err != nil {
		return progress{}, err
	}
	inputs, err := strconv.ParseInt(last[2], 10, 64)
	return progress{executions: executions, inputs: inputs}, err
}
