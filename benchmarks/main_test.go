package main

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRun(t *testing.T) {
	var out, errs strings.Builder
	args := []string{"-run", "^memory$", "-rounds", "2", "-slice", "1ms", "-dir", t.TempDir()}
	require.Equal(t, 0, run(args, &out, &errs), errs.String())
	require.Empty(t, errs.String())
	printed := strings.Join(strings.Fields(out.String()), " ")
	for _, want := range []string{
		"command go run ./benchmarks -run ^memory$ ", "GOMAXPROCS", "rounds 2,", "memory: ", byTransport,
		"widest spread ", "targets ",
		"not run durable-64 ",
	} {
		require.Contains(t, printed, want)
	}
}

func TestStatus(t *testing.T) {
	for _, c := range []struct {
		rule   string
		err    error
		check  bool
		missed int
		want   int
	}{
		{"a run that meets its targets succeeds", nil, true, 0, 0},
		{"a missed target fails under -check", nil, true, 1, 1},
		{"a missed target is only reported without -check", nil, false, 1, 0},
		{"a failure fails", errors.New("failed"), false, 0, 1},
	} {
		t.Run(c.rule, func(t *testing.T) {
			require.Equal(t, c.want, status(c.err, c.check, c.missed))
		})
	}
}

func TestAFailureIsPrinted(t *testing.T) {
	var out, errs strings.Builder
	require.Equal(t, 1, run([]string{"-run", "memory", "-slice", "1ms", "-dir", t.TempDir() + "/missing"}, &out, &errs))
	require.Contains(t, errs.String(), "benchmarks: memory, http.Client: ")
}

func TestWrongArguments(t *testing.T) {
	for _, c := range []struct {
		rule string
		args []string
		want string
	}{
		{"a flag that is unknown", []string{"-fast"}, "-fast"},
		{"an argument that is no flag", []string{"memory"}, `unexpected argument "memory"`},
		{"no round", []string{"-rounds", "0"}, "-rounds is 0"},
		{"no time", []string{"-slice", "0"}, "-slice is 0s"},
		{"fewer records than the small table", []string{"-records", "9"}, "-records is 9"},
		{"an expression that can't be read", []string{"-run", "("}, "-run"},
		{"an expression that nothing matches", []string{"-run", "nothing"}, "matches none of memory, loopback"},
	} {
		t.Run(c.rule, func(t *testing.T) {
			var out, errs strings.Builder
			require.Equal(t, 2, run(c.args, &out, &errs))
			require.Contains(t, errs.String(), c.want)
			require.Empty(t, out.String())
		})
	}
}

func TestHelpIsNoFailure(t *testing.T) {
	var out, errs strings.Builder
	require.Equal(t, 0, run([]string{"-h"}, &out, &errs))
	require.Contains(t, errs.String(), "-rounds")
}
