package main

import (
	"os"
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
		"command go run ./benchmarks -run ^memory$ ", "rounds 2,", "memory: ", byTransport, "not run durable-64 ",
	} {
		require.Contains(t, printed, want)
	}
}

func TestFewerRecordsThanTheSmallTableAreRefused(t *testing.T) {
	var out, errs strings.Builder
	require.Equal(t, 2, run([]string{"-records", "9"}, &out, &errs))
	require.Contains(t, errs.String(), "-records is 9")
	require.Empty(t, out.String())
}

// A module under another major version, or one that is no longer measured, would silently go unnamed.
func TestEachMeasuredModuleIsRequired(t *testing.T) {
	mod, err := os.ReadFile("go.mod")
	require.NoError(t, err)
	for _, path := range measured {
		require.Contains(t, string(mod), "\t"+path+" v")
	}
}
