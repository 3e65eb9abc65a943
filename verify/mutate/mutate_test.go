package main

import (
	"bytes"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/internal/racetest"
)

func TestMutantsOfEachKind(t *testing.T) {
	for source, want := range map[string][]string{
		`return a < b`:           {"a < b -> a <= b", "a < b -> a >= b"},
		`return a == b && c`:     {"a == b -> a != b", "a == b && c -> a == b || c"},
		`return !a`:              {"!a -> a"},
		`x = 1`:                  {"x = 1 -> nothing", "1 -> (1+1)"},
		`x := f()`:               nil,
		`f(a)`:                   {"f(a) -> nothing"},
		`defer f()`:              {"defer f() -> nothing"},
		`n++`:                    {"n++ -> n--"},
		`if a { f() }`:           {"a -> (a) || true", "a -> (a) && false", "f() -> nothing"},
		`return v, err`:          {"return v, err -> return v, nil"},
		`return true`:            {"return true -> return false"},
		`for { break }`:          {"break -> continue"},
		`for { continue }`:       {"continue -> break"},
		`return a+b, c*d`:        {"a+b -> a-b", "c*d -> c/d"},
		"return \"a\" + // b\nc": {`"a" + // b c -> "a" - // b c`},
	} {
		found, err := mutate("f.go", []byte("package p\n\nfunc f() {\n"+source+"\n}\n"))
		require.NoError(t, err)
		var names []string
		for _, m := range found {
			names = append(names, m.name)
		}
		for i := range want {
			want[i] = "f.go f: " + want[i]
		}
		require.ElementsMatch(t, want, names, source)
	}
}

func TestEqualChangesOfAPackageHaveNamesOfTheirOwn(t *testing.T) {
	found, err := mutantsOf(".")
	require.NoError(t, err)
	names := map[string]bool{}
	for _, m := range found {
		require.False(t, names[m.name], m.name)
		names[m.name] = true
	}
}

// timeLimit is for the tests of the sample.
const timeLimit = 30 * time.Second

// The tests of the sample miss two changes. A change that does not compile is no mutant.
func TestSurvivorsAreFound(t *testing.T) {
	racetest.Repeats(t)
	dir := filepath.Join("testdata", "sample")
	all, err := mutantsOf(dir)
	require.NoError(t, err)
	tester := tester{dir: dir, limit: timeLimit}
	t.Setenv("GOWORK", "off")
	require.NoError(t, tester.check(t.Context()))
	verdicts := map[verdict][]string{}
	for _, m := range all {
		v, err := tester.try(t.Context(), m)
		require.NoError(t, err)
		verdicts[v] = append(verdicts[v], m.name)
	}
	require.Equal(t, []string{"testdata/sample/sample.go Positive: n > 0 -> n >= 0",
		"testdata/sample/sample.go Positive: 0 -> (0+1)"}, verdicts[survived])
	require.Empty(t, verdicts[invalid])
	require.Len(t, verdicts[killed], len(all)-2)
}

func TestAMutantThatDoesNotCompileIsInvalid(t *testing.T) {
	racetest.Repeats(t)
	dir := filepath.Join("testdata", "sample")
	t.Setenv("GOWORK", "off")
	v, err := tester{dir: dir, limit: timeLimit}.try(t.Context(), mutant{file: filepath.Join(dir, "sample.go"), end: 3, text: "x"})
	require.NoError(t, err)
	require.Equal(t, invalid, v)
}

func TestARunGoesOnWhereItStopped(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state")
	r, err := openRecord(path)
	require.NoError(t, err)
	require.NoError(t, r.add("a.go f: a -> b", killed))
	require.NoError(t, r.close())
	r, err = openRecord(path)
	require.NoError(t, err)
	require.Equal(t, map[string]verdict{"a.go f: a -> b": killed}, r.seen)
	require.NoError(t, r.close())
}

func TestEachKnownSurvivorHasAReasonAndExists(t *testing.T) {
	known, err := parseReasons(survivors)
	require.NoError(t, err)
	names := map[string]bool{}
	for name := range known {
		dir := filepath.Dir(filepath.Join("..", "..", name[:bytes.IndexByte([]byte(name), ' ')]))
		found, err := mutantsOf(dir)
		require.NoError(t, err)
		for _, m := range found {
			names[filepath.ToSlash(filepath.Clean(m.name[len("../../"):]))] = true
		}
	}
	for name := range known {
		require.True(t, names[name], "there is no mutant %q", name)
	}
	_, err = parseReasons("a.go f: a -> b\n")
	require.ErrorContains(t, err, "no reason")
}

func TestScoreLeavesOutWhatHasNoEffect(t *testing.T) {
	var s score
	known := map[string]string{"equal": "a reason"}
	for name, v := range map[string]verdict{"a": killed, "b": killed, "c": killed, "equal": survived, "d": survived, "e": invalid} {
		s.count(mutant{name: name}, v, known)
	}
	require.Equal(t, 5, s.tried())
	require.InDelta(t, 75, s.percent(), 0.01)
	var out bytes.Buffer
	report(&out, []score{s})
	require.Contains(t, out.String(), "| `all` | 0 | 5 | 1 | 3 | 1 | 75.0 % |")
	require.Contains(t, out.String(), "survivor: d")
}
