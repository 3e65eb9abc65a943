package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// A verdict is the result of the tests under a mutant.
type verdict string

// Verdicts.
const (
	killed   verdict = "killed"
	survived verdict = "survived"
	invalid  verdict = "invalid" // it does not compile
)

// A tester runs the tests of the package in dir. If they notice nothing, it runs those of the packages in also.
type tester struct {
	dir   string
	also  []string
	limit time.Duration
}

// check returns an error if the tests fail without a mutant.
func (t tester) check(ctx context.Context) error {
	v, out, err := t.test(ctx, "")
	if err != nil {
		return err
	}
	if v != survived {
		return fmt.Errorf("the tests of %s fail without a mutant:\n%s", t.dir, out)
	}
	return nil
}

// try runs the tests under the mutant.
func (t tester) try(ctx context.Context, m mutant) (verdict, error) {
	source, err := os.ReadFile(m.file)
	if err != nil {
		return "", err
	}
	dir, err := os.MkdirTemp("", "mutate")
	if err != nil {
		return "", err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	changed, overlay := filepath.Join(dir, "mutant.go"), filepath.Join(dir, "overlay.json")
	text := bytes.Join([][]byte{source[:m.start], []byte(m.text), source[m.end:]}, nil)
	if err := os.WriteFile(changed, text, 0o600); err != nil {
		return "", err
	}
	abs, err := filepath.Abs(m.file)
	if err != nil {
		return "", err
	}
	list, err := json.Marshal(map[string]any{"Replace": map[string]string{abs: changed}})
	if err != nil {
		return "", err
	}
	if err := os.WriteFile(overlay, list, 0o600); err != nil {
		return "", err
	}
	v, _, err := t.test(ctx, overlay)
	return v, err
}

// test runs go test in each directory, until a test fails.
func (t tester) test(ctx context.Context, overlay string) (v verdict, out string, err error) {
	for _, dir := range append([]string{t.dir}, t.also...) {
		if v, out, err = t.testIn(ctx, dir, overlay); err != nil || v != survived {
			break
		}
	}
	return v, out, err
}

func (t tester) testIn(ctx context.Context, dir, overlay string) (verdict, string, error) {
	bounded, cancel := context.WithTimeout(ctx, t.limit+time.Minute) // go test ends the tests itself, and compiles before
	defer cancel()
	cmd := exec.CommandContext(bounded, "go", "test", "-vet=off", "-count=1", "-failfast", "-timeout="+t.limit.String(),
		"-overlay="+overlay, ".")
	cmd.Dir = dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	out, err := cmd.CombinedOutput()
	switch {
	case ctx.Err() != nil:
		return "", "", ctx.Err()
	case err == nil:
		return survived, "", nil
	case strings.Contains(string(out), "[build failed]") || strings.Contains(string(out), "[setup failed]"):
		return invalid, string(out), nil
	}
	return killed, string(out), nil
}
