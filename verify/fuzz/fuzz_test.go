package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/internal/racetest"
)

// sample copies the sample module, and makes it the working directory.
func sample(t *testing.T) {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.CopyFS(dir, os.DirFS(filepath.Join("testdata", "sample"))))
	t.Setenv("GOWORK", "off")
	t.Chdir(dir)
}

func TestADefectIsFoundAndTheOtherTargetPasses(t *testing.T) {
	racetest.Repeats(t)
	sample(t)
	var out bytes.Buffer
	err := run(t.Context(), []string{"-for", "3s", "-state", "state", "-keep"}, &out)
	require.ErrorContains(t, err, ". FuzzThird: ")
	require.ErrorContains(t, err, "index out of range")
	require.NotContains(t, err.Error(), "FuzzKind")
	failing, err := os.ReadDir(target{".", "FuzzThird"}.corpus())
	require.NoError(t, err)
	require.NotEmpty(t, failing, "go test reads the input that failed from there")

	corpus, err := os.ReadDir(target{".", "FuzzKind"}.corpus())
	require.NoError(t, err)
	require.Len(t, corpus, 2, "the seed is a word; an empty text and a number reach other statements")

	rec, err := openRecord(filepath.Join("state", "results"))
	require.NoError(t, err)
	did := rec.of(target{".", "FuzzKind"})
	require.NoError(t, rec.close())
	require.Greater(t, did.time, 2*time.Second, "a search that lacks less than a second has had its time")
	require.Positive(t, did.executions)

	// Repaired, the target passes. The one that had its time is left alone.
	source, err := os.ReadFile("sample.go")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile("sample.go", bytes.Replace(source, []byte("len(s) == 0 {\n\t\treturn 0"),
		[]byte("len(s) < 3 {\n\t\treturn 0"), 1), 0o600))
	out.Reset()
	require.NoError(t, run(t.Context(), []string{"-for", "3s", "-state", "state"}, &out))
	require.Contains(t, out.String(), ". FuzzKind: 0s, 0 executions")
	rec, err = openRecord(filepath.Join("state", "results"))
	require.NoError(t, err)
	require.Equal(t, did, rec.of(target{".", "FuzzKind"}))
	require.Greater(t, rec.of(target{".", "FuzzThird"}).time, 2*time.Second)
	require.NoError(t, rec.close())
}

func TestATimeIsThatOfTheProcessor(t *testing.T) {
	sample(t)
	require.NoError(t, os.WriteFile("slow_test.go", []byte(`package sample

import (
	"testing"
	"time"
)

func FuzzSlow(f *testing.F) {
	f.Fuzz(func(*testing.T, byte) { time.Sleep(20 * time.Millisecond) })
}
`), 0o600))
	s := &searcher{dir: "state"}
	p, err := s.search(t.Context(), target{".", "FuzzSlow"}, 4*time.Second)
	require.NoError(t, err)
	require.Positive(t, p.time)
	require.Less(t, p.time, 3*time.Second, "the target slept for most of the four seconds")
}

func TestTargetsAreFound(t *testing.T) {
	sample(t)
	for _, dirs := range [][]string{nil, {"."}, {"./..."}} {
		found, err := targetsOf(dirs)
		require.NoError(t, err)
		require.Equal(t, []target{{".", "FuzzKind"}, {".", "FuzzThird"}}, found)
	}
	_, err := targetsOf([]string{"nowhere"})
	require.ErrorContains(t, err, "nowhere")
	require.NoError(t, os.Mkdir("empty", 0o700))
	_, err = targetsOf([]string{"empty"})
	require.EqualError(t, err, "empty: no test file there has a fuzz target")
}

func TestProgressIsTheLastLine(t *testing.T) {
	p, err := parseProgress("fuzz: elapsed: 3s, execs: 10 (3/sec), new interesting: 1 (total: 4)\n" +
		"fuzz: elapsed: 1m1s, execs: 20 (0/sec), new interesting: 2 (total: 5)\nPASS\n")
	require.NoError(t, err)
	require.Equal(t, progress{executions: 20, inputs: 2}, p)
	_, err = parseProgress("PASS\n")
	require.ErrorContains(t, err, "no progress")
}

func TestRunsAddUp(t *testing.T) {
	path := filepath.Join(t.TempDir(), "results")
	some := target{"store", "FuzzSealed"}
	for range 2 {
		r, err := openRecord(path)
		require.NoError(t, err)
		require.NoError(t, r.add(some, progress{time.Minute, 7, 1}))
		require.NoError(t, r.close())
	}
	r, err := openRecord(path)
	require.NoError(t, err)
	require.Equal(t, progress{2 * time.Minute, 14, 2}, r.of(some))
	require.NoError(t, r.close())
	require.NoError(t, os.WriteFile(path, []byte("store FuzzSealed\tlong 1 2\n"), 0o600))
	_, err = openRecord(path)
	require.ErrorContains(t, err, "is not a target, a tab, a time and two counts")
}

func TestASearchThatOnlyRanOutOfTimeHasFoundNothing(t *testing.T) {
	require.True(t, timeUp("--- FAIL: FuzzKind\n    context deadline exceeded\n"))
	require.False(t, timeUp("--- FAIL: FuzzKind\n    context deadline exceeded\n    Failing input written to x\n"))
	require.False(t, timeUp("--- FAIL: FuzzKind\n    no kind\n"))
}

func TestBadFlags(t *testing.T) {
	for want, args := range map[string][]string{
		"-for 1ms: a search takes at least a second":             {"-for", "1ms"},
		"-parallel 0: at least one target is searched at a time": {"-parallel", "0"},
	} {
		require.EqualError(t, run(t.Context(), args, io.Discard), want)
	}
}

func TestAnInterruptedSearchIsNoted(t *testing.T) {
	sample(t)
	ctx, interrupt := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- run(ctx, []string{"-for", "1h", "-state", "state"}, io.Discard) }()
	kind := target{".", "FuzzKind"}
	found := filepath.Join("state", "inputs", ".", kind.name)
	require.Eventually(t, func() bool {
		entries, _ := os.ReadDir(found)
		return len(entries) > 0
	}, 2*time.Minute, 50*time.Millisecond)
	interrupt()
	require.ErrorIs(t, <-done, context.Canceled)
	rec, err := openRecord(filepath.Join("state", "results"))
	require.NoError(t, err)
	require.Positive(t, rec.of(kind).executions)
	require.NoError(t, rec.close())
}
