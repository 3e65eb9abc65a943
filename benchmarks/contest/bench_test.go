package contest

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCheckNames(t *testing.T) {
	two := func(a, b string) []Contestant { return []Contestant{{Name: a}, {Name: b}} }
	for _, c := range []struct {
		rule string
		all  []Scenario
		want string // empty: no error
	}{
		{"contestants of two scenarios may share a name", []Scenario{
			{Name: "a", Reference: "x", Contestants: two("x", "y")},
			{Name: "b", Reference: "y", Contestants: two("x", "y")},
		}, ""},
		{"two scenarios may not", []Scenario{
			{Name: "a", Reference: "x", Contestants: two("x", "y")},
			{Name: "a", Reference: "x", Contestants: two("x", "y")},
		}, `two scenarios are named "a"`},
		{"two contestants of one scenario may not", []Scenario{
			{Name: "a", Reference: "x", Contestants: two("x", "x")},
		}, `a: two contestants are named "x"`},
		{"a contestant's name has no slash", []Scenario{
			{Name: "a", Reference: "x", Contestants: two("x", "y/z")},
		}, `a: the name "y/z" has a slash`},
		{"the reference is one of them", []Scenario{
			{Name: "a", Reference: "z", Contestants: two("x", "y")},
		}, `the reference "z" is no contestant`},
	} {
		t.Run(c.rule, func(t *testing.T) {
			err := CheckNames(c.all)
			if c.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, c.want)
		})
	}
}

func TestTryRunsALaterOperation(t *testing.T) {
	failure := errors.New("failed")
	for _, c := range []struct {
		rule string
		open func(string) (Runner, error)
		want error
	}{
		{"a contestant that does its work passes", func(string) (Runner, error) {
			return Serially(func(int) error { return nil }, nil), nil
		}, nil},
		{"one that can't be opened fails", func(string) (Runner, error) { return Runner{}, failure }, failure},
		{"one that fails later fails", func(string) (Runner, error) {
			return Serially(func(i int) error {
				if i == 3 {
					return failure
				}
				return nil
			}, nil), nil
		}, failure},
		{"one that can't be closed fails", func(string) (Runner, error) {
			return Serially(func(int) error { return nil }, func() error { return failure }), nil
		}, failure},
	} {
		t.Run(c.rule, func(t *testing.T) {
			require.ErrorIs(t, Contestant{"c", c.open}.try(t.TempDir()), c.want)
		})
	}
}
