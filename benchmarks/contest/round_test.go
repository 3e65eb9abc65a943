package contest

import (
	"errors"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// logged is a contestant that writes down when it is opened.
func logged(name string, log *[]string) Contestant {
	return Contestant{name, func(dir string) (Runner, error) {
		*log = append(*log, name)
		if err := os.WriteFile(dir+"/file", nil, 0o600); err != nil {
			return Runner{}, err
		}
		return Serially(func(int) error { return nil }, nil), nil
	}}
}

func TestContestantsTakeTurns(t *testing.T) {
	var log []string
	dir := t.TempDir()
	p := pace{rounds: 3, slice: time.Microsecond, dir: dir}
	o, err := p.play(Scenario{Contestants: []Contestant{logged("a", &log), logged("b", &log)}})
	require.NoError(t, err)
	require.Equal(t, []string{"a", "b", "a", "b", "b", "a", "a", "b"}, log,
		"one round to calibrate, three that count, the second backwards")
	require.Len(t, o["a"], 3)
	require.Len(t, o["b"], 3)
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, left, "files are removed")
}

func TestSampleIsPerOperation(t *testing.T) {
	var sink []byte
	c := Contestant{"allocates", func(string) (Runner, error) {
		return Serially(func(int) error {
			sink = make([]byte, 1<<10)
			return nil
		}, nil), nil
	}}
	o, err := pace{rounds: 1, slice: time.Millisecond, dir: t.TempDir()}.play(Scenario{Contestants: []Contestant{c}})
	require.NoError(t, err)
	require.Len(t, sink, 1<<10)
	require.Equal(t, 1.0, o.Allocs("allocates"))
	require.Positive(t, o.Time("allocates").Min)
}

func TestCallersShareEvenly(t *testing.T) {
	var runs []int
	c := Contestant{"counts", func(string) (Runner, error) {
		return Runner{Run: func(n int) error {
			runs = append(runs, n)
			return nil
		}}, nil
	}}
	p := pace{slice: time.Microsecond, dir: t.TempDir()}
	n, err := p.calibrate(c, 64)
	require.NoError(t, err)
	for _, n := range append(runs, n) {
		require.Zero(t, n%64, "%d", n)
		require.Positive(t, n)
	}
}

func TestAFailureNamesTheContestant(t *testing.T) {
	failure := errors.New("failed")
	for rule, open := range map[string]func(string) (Runner, error){
		"opening": func(string) (Runner, error) { return Runner{}, failure },
		"running": func(string) (Runner, error) {
			return Runner{Run: func(int) error { return failure }}, nil
		},
		"closing": func(string) (Runner, error) {
			return Serially(func(int) error { return nil }, func() error { return failure }), nil
		},
	} {
		t.Run(rule, func(t *testing.T) {
			p := pace{rounds: 1, slice: time.Microsecond, dir: t.TempDir()}
			_, err := p.play(Scenario{Name: "s", Contestants: []Contestant{{"c", open}}})
			require.ErrorIs(t, err, failure)
			require.ErrorContains(t, err, "s, c: ")
		})
	}
}
