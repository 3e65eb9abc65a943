package disk

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

// The test binary runs itself as the process that is recorded: with this variable set it runs the Workload in it.
const childVariable = "REDO_VERIFY_DISK"

func TestMain(m *testing.M) {
	w, j := Workload{Print: os.Stdout}, flipJob{}
	run := func(variable string, job any, f func() error) {
		text := os.Getenv(variable)
		if text == "" {
			return
		}
		err := json.Unmarshal([]byte(text), job)
		if err == nil {
			err = f()
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	run(childVariable, &w, func() error {
		runtime.LockOSThread() // strace numbers the calls of each thread
		return w.Run(context.Background())
	})
	run(flipVariable, &j, func() error { return j.run(os.Stdout) })
	os.Exit(m.Run())
}

// scratch returns a directory in memory where there is one, since states are written often.
func scratch(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "redo-disk") //nolint:usetesting // t.TempDir is not in memory
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	return dir
}

// needStrace skips the test if strace can't trace.
func needStrace(t *testing.T) {
	t.Helper()
	err := exec.Command("strace", "-f", "-e", "trace=none", os.Args[0], "-test.list=^$").Run()
	switch {
	case err == nil:
	case os.Getenv("REDO_TEST_REQUIRE") == "1":
		t.Fatalf("strace does not run: %v", err)
	default:
		t.Skipf("strace does not run, and it records what reaches the disk: %v", err)
	}
}

// record runs the workload in a process of its own and returns its calls.
func record(t *testing.T, w Workload, in ...Injection) []Call {
	t.Helper()

	text, err := json.Marshal(w)
	require.NoError(t, err)
	env := []string{childVariable + "=" + string(text)}
	calls, _, err := Record(t.Context(), filepath.Dir(w.Path), []string{os.Args[0]}, env, in...)
	require.NoError(t, err)
	return calls
}
