package disk

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// Injection makes strace change a system call, in the syntax of its option inject.
type Injection string

// Record runs a program under strace. It returns the program's calls on the files of dir, and its lines. ended is
// the program's own error, and err that of the recording.
func Record(ctx context.Context, dir string, program []string, env []string, in ...Injection) (
	calls []Call, ended, err error,
) {
	logs, err := os.MkdirTemp("", "disk")
	if err != nil {
		return nil, nil, fmt.Errorf("disk: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(logs)) }()
	path := filepath.Join(logs, "trace")
	args := []string{
		"-f", "-qq", "-y", "-xx", "-s", "16777216", "-e", "signal=none", "--seccomp-bpf", "-o", path, "-e", "trace=" + traced,
	}
	for _, i := range in {
		args = append(args, "-e", "inject="+string(i))
	}
	cmd := exec.CommandContext(ctx, "strace", append(append(args, "--"), program...)...)
	cmd.Env = append(os.Environ(), env...)
	var failure bytes.Buffer
	cmd.Stderr = &failure
	if ended = cmd.Run(); ended != nil {
		ended = fmt.Errorf("%w: %s", ended, bytes.TrimSpace(failure.Bytes()))
	}
	if cmd.ProcessState == nil {
		return nil, nil, fmt.Errorf("disk: strace does not run: %w", ended)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, nil, fmt.Errorf("disk: strace wrote no trace (%w): %w", ended, err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	calls, err = Parse(f, dir)
	return calls, ended, err
}
