package main

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/conformance"
)

// These constants bound the polling of a test.
const (
	timeLimit = time.Minute
	tick      = 5 * time.Millisecond
)

func TestProgressIsDrawnOnTerminalsOnly(t *testing.T) {
	var b bytes.Buffer
	p := newProgress(terminal{err: &b, live: true})
	p.show(conformance.Result{Slug: "key-case", Verdict: conformance.Pass})
	p.show(conformance.Result{Slug: "key-empty", Verdict: conformance.Fail})
	p.clear()
	require.Equal(t, "0 cases: connecting\r\x1b[K1 cases, 0 failed: key-case pass\r\x1b[K2 cases, 1 failed: key-empty "+
		"fail\r\x1b[K", b.String())

	b.Reset()
	p = newProgress(terminal{err: &b})
	p.show(conformance.Result{Slug: "key-case", Verdict: conformance.Pass})
	p.clear()
	require.Empty(t, b.String())
}

func TestColorsAreForTerminalsOnly(t *testing.T) {
	t.Chdir(t.TempDir())
	serveHere(t, "target.yaml")
	for _, colors := range []bool{true, false} {
		var out bytes.Buffer
		args := []string{"check", "target.yaml", "--run", "ctl", "--output", "report.txt"}
		require.Zero(t, run(t.Context(), args, terminal{in: http.NoBody, out: &out, err: &bytes.Buffer{},
			colors: colors}))
		require.Equal(t, colors, strings.Contains(out.String(), "\x1b[33mlittle was tried\x1b[0m"), "%q", out.String())
	}
}

// broken can't be written to.
type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errors.New("the pipe is broken") }

func TestReportThatCanNotBeWrittenIsAFaultOfTheTool(t *testing.T) {
	t.Chdir(t.TempDir())
	serveHere(t, "target.yaml")
	var errs bytes.Buffer
	status := run(t.Context(), []string{"check", "target.yaml", "--run", "ctl"},
		terminal{in: http.NoBody, out: broken{}, err: &errs})
	require.Equal(t, conformance.ExitFault, status)
	require.Contains(t, errs.String(), "redo: the report could not be written: the pipe is broken")
}

func TestTerminalShowsControlsOfDirection(t *testing.T) {
	const name = "refund:\u202Egnidnep"
	for terminal, want := range map[bool]string{true: `refund:\u202egnidnep`, false: name} {
		var b bytes.Buffer
		_, err := io.WriteString(legible(&b, terminal), name)
		require.NoError(t, err)
		require.Equal(t, want, b.String())
	}
}

func TestOutputThatCanNotBeWrittenIsAFailure(t *testing.T) {
	for _, line := range []string{
		"explain", "explain 503", "check --list", "check --explain fault-5xx", "version", "--help",
	} {
		var errs bytes.Buffer
		require.Equal(t, exitFailed, run(t.Context(), strings.Fields(line), terminal{out: broken{}, err: &errs}), line)
		require.Equal(t, "redo: the pipe is broken\n", errs.String(), line)
	}
}
