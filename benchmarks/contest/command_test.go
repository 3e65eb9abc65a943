package contest

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// program is a program of two scenarios, of which the second runs only when it is named.
func program(of func(map[string]Outcome) []Block) Program {
	idle := func(string) (Runner, error) { return Serially(func(int) error { return nil }, nil), nil }
	return Program{
		Path: "./benchmarks",
		Scenarios: func() ([]Scenario, error) {
			return []Scenario{
				{Name: "idle", Reference: "a b", Contestants: []Contestant{{"a b", idle}, {"c", idle}}},
				{Name: "scale", Reference: "a", Contestants: []Contestant{{"a", idle}}, Slow: true},
			}, nil
		},
		Targets: []Target{
			AtMost("idle", "a rule", 1e9, "%.0f", func(o Outcome) Figure { return o.Time("c") }),
			AtMost("scale", "another", 0, "%.0f", func(o Outcome) Figure { return o.Time("a") }),
		},
		Blocks: of,
	}
}

func TestRun(t *testing.T) {
	var out, errs strings.Builder
	args := []string{"-rounds", "2", "-slice", "1us", "-dir", t.TempDir()}
	require.Equal(t, 0, program(nil).Run(args, &out, &errs), errs.String())
	require.Empty(t, errs.String())
	printed := strings.Join(strings.Fields(out.String()), " ")
	for _, want := range []string{
		"command go run ./benchmarks -rounds 2 ", "GOMAXPROCS", "rounds 2,", "idle: ", "a b", "widest spread ",
		"targets ok idle a rule", "not run scale",
	} {
		require.Contains(t, printed, want)
	}
	require.NotContains(t, printed, "scale: ", "a slow scenario is not named")
}

// benchstat reads lines of a name without blanks, a count, and pairs of value and unit.
func TestRunWritesEachRoundForBenchstat(t *testing.T) {
	var out, errs strings.Builder
	dir := t.TempDir()
	file := filepath.Join(dir, "new.txt")
	args := []string{"-run", "idle", "-rounds", "2", "-slice", "1us", "-dir", dir, "-benchstat", file}
	require.Equal(t, 0, program(nil).Run(args, &out, &errs), errs.String())
	content, err := os.ReadFile(file)
	require.NoError(t, err)
	counts := map[string]int{}
	for line := range strings.Lines(string(content)) {
		if fields := strings.Fields(line); strings.HasPrefix(line, "Benchmark") {
			require.Len(t, fields, 8, line)
			require.Equal(t, []string{"ns/op", "B/op", "allocs/op"}, []string{fields[3], fields[5], fields[7]})
			name, _, _ := strings.Cut(fields[0], "-")
			counts[name]++
		}
	}
	require.Equal(t, map[string]int{"BenchmarkScenario/idle/by=a_b": 2, "BenchmarkScenario/idle/by=c": 2}, counts)
}

func TestRunWritesItsBlocksIntoAPage(t *testing.T) {
	blocks := func(played map[string]Outcome) []Block {
		require.Contains(t, played, "idle")
		return []Block{{"one", "new\n"}}
	}
	page := filepath.Join(t.TempDir(), "page.md")
	const before, after = "# Page\n\n<!-- benchmarks: one -->\n", "<!-- benchmarks: end -->\n\nEnd\n"
	require.NoError(t, os.WriteFile(page, []byte(before+"old\n"+after), 0o600))
	args := []string{"-run", "idle", "-rounds", "1", "-slice", "1us", "-dir", t.TempDir(), "-docs", page}
	var out, errs strings.Builder
	require.Equal(t, 0, program(blocks).Run(args, &out, &errs), errs.String())
	content, err := os.ReadFile(page)
	require.NoError(t, err)
	require.Equal(t, before+"new\n"+after, string(content))
	text, err := Find(string(content), "one")
	require.NoError(t, err)
	require.Equal(t, "new\n", text)

	t.Run("a page without the block is not changed", func(t *testing.T) {
		require.ErrorContains(t, Publish(page, []Block{{"one", "newer\n"}, {"two", ""}}), "<!-- benchmarks: two -->")
		left, err := os.ReadFile(page)
		require.NoError(t, err)
		require.Equal(t, content, left)
		_, err = Find(before, "one")
		require.ErrorContains(t, err, "benchmarks: end")
	})
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
	args := []string{"-run", "idle", "-slice", "1us", "-dir", t.TempDir() + "/missing"}
	require.Equal(t, 1, program(nil).Run(args, &out, &errs))
	require.Contains(t, errs.String(), "benchmarks: idle, a b: ")
}

func TestWrongArguments(t *testing.T) {
	p := program(nil)
	failing := p
	failing.Scenarios = func() ([]Scenario, error) { return nil, errors.New("benchmarks: -size is 0") }
	failing.Flags = func(f *flag.FlagSet) { f.Int("size", 1, "") }
	for _, c := range []struct {
		rule    string
		program Program
		args    []string
		want    string
	}{
		{"a flag that is unknown", p, []string{"-fast"}, "-fast"},
		{"a page for a program without one", p, []string{"-docs", "x"}, "-docs"},
		{"an argument that is no flag", p, []string{"memory"}, `unexpected argument "memory"`},
		{"no round", p, []string{"-rounds", "0"}, "-rounds is 0"},
		{"no time", p, []string{"-slice", "0"}, "-slice is 0s"},
		{"a value that the program refuses", failing, []string{"-size", "0"}, "-size is 0"},
		{"an expression that can't be read", p, []string{"-run", "("}, "-run"},
		{"an expression that nothing matches", p, []string{"-run", "nothing"}, "matches none of idle, scale"},
	} {
		t.Run(c.rule, func(t *testing.T) {
			var out, errs strings.Builder
			require.Equal(t, 2, c.program.Run(c.args, &out, &errs))
			require.Contains(t, errs.String(), c.want)
			require.Empty(t, out.String())
		})
	}
}

func TestHelpIsNoFailure(t *testing.T) {
	var out, errs strings.Builder
	require.Equal(t, 0, program(nil).Run([]string{"-h"}, &out, &errs))
	require.Contains(t, errs.String(), "-rounds")
}
