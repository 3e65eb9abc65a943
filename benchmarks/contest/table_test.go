package contest

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTable(t *testing.T) {
	s := Scenario{
		Name: "posting", Title: "a POST", Reference: "peer",
		Contestants: []Contestant{{Name: "peer"}, {Name: "redo"}},
	}
	o := Outcome{
		"peer": {{Ns: 1000, Bytes: 64, Allocs: 2}, {Ns: 2000, Bytes: 64, Allocs: 2}},
		"redo": {{Ns: 3000, Bytes: 128, Allocs: 3}, {Ns: 4000, Bytes: 128, Allocs: 3}},
	}
	var out strings.Builder
	s.write(&out, o)
	var lines []string
	for line := range strings.Lines(out.String()) {
		lines = append(lines, strings.Join(strings.Fields(line), " "))
	}
	require.Equal(t, []string{
		"posting: a POST",
		"ns/op min max spread ops/s B/op allocs/op ratio half of the rounds",
		"peer 1500 1000 2000 67% 666667 64 2 1.00× 1.00× to 1.00×",
		"redo 3500 3000 4000 29% 285714 128 3 2.50× 2.25× to 2.75×",
		"",
	}, lines)

	who, spread := s.widest(o)
	require.Equal(t, "peer", who)
	require.Equal(t, 1000.0/1500, spread)
}
