package limit

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// state is a row's value in the tests of table.
type state struct{ matters bool }

func newStates() *table[int, *state] {
	t := newTable[int](func(s *state) bool { return s.matters })
	return &t
}

// kept returns the keys below n that are in the table, without marking them as used.
func kept(t *testing.T, states *table[int, *state], n int) []int {
	t.Helper()
	requireBounded(t, states)
	var keys []int
	for k := range n {
		if states.rows[k] != nil {
			keys = append(keys, k)
		}
	}
	return keys
}

// requireBounded checks that the table is no larger than allowed and that its parts agree.
func requireBounded[K comparable, V any](t *testing.T, rows *table[K, V]) {
	t.Helper()
	require.LessOrEqual(t, len(rows.rows), maxDestinations)
	require.Equal(t, len(rows.rows), rows.recent.Len()+rows.held.Len())
	for k, e := range rows.rows {
		r := e.Value.(*row[K, V])
		require.Equal(t, k, r.key)
	}
}

// fill adds rows from the first key up to, and without, the last.
func fill(states *table[int, *state], from, to int, matters bool) {
	for k := range to - from {
		states.add(from+k, &state{matters})
	}
}

func ints(from, to int) []int {
	var keys []int
	for k := from; k < to; k++ {
		keys = append(keys, k)
	}
	return keys
}

func TestTable(t *testing.T) {
	const most = maxDestinations
	for name, f := range map[string]func(*testing.T, *table[int, *state]){
		"keeps all that fit": func(t *testing.T, s *table[int, *state]) {
			fill(s, 0, most, false)
			require.Equal(t, ints(0, most), kept(t, s, most))
		},
		"drops the first that was added, if none was used": func(t *testing.T, s *table[int, *state]) {
			fill(s, 0, most+3, false)
			require.Equal(t, ints(3, most+3), kept(t, s, most+3))
		},
		"drops the least recently used": func(t *testing.T, s *table[int, *state]) {
			fill(s, 0, most, false)
			s.get(0)
			s.get(1)
			fill(s, most, most+2, false)
			require.Equal(t, slices.Concat(ints(0, 2), ints(4, most+2)), kept(t, s, most+2))
		},
		"drops a row that matters after all others": func(t *testing.T, s *table[int, *state]) {
			fill(s, 0, 1000, true)
			fill(s, 1000, many, false)
			require.Equal(t, slices.Concat(ints(0, 1000), ints(many-most+1000, many)), kept(t, s, many))
		},
		"drops the least recently used if all matter": func(t *testing.T, s *table[int, *state]) {
			fill(s, 0, many, true)
			require.Equal(t, ints(many-most, many), kept(t, s, many))
		},
		"a use of a held row counts": func(t *testing.T, s *table[int, *state]) {
			fill(s, 0, most+1, true) // all but the last are held
			require.Equal(t, most, s.held.Len()+1)
			require.True(t, s.get(1).matters)
			fill(s, most+1, most+3, true)
			require.Equal(t, slices.Concat(ints(1, 2), ints(4, most+3)), kept(t, s, most+3))
		},
		"a new row gives way before the rows that matter": func(t *testing.T, s *table[int, *state]) {
			fill(s, 0, most, true)
			fill(s, most, many, false)
			require.Equal(t, slices.Concat(ints(1, most), ints(many-1, many)), kept(t, s, many))
		},
		"finds the first held row that matters no more": func(t *testing.T, s *table[int, *state]) {
			fill(s, 0, most+1, true)
			for _, k := range []int{2000, 3000} {
				s.rows[k].Value.(*row[int, *state]).value.matters = false
			}
			time.Sleep(rescanAfter)
			fill(s, most+1, most+2, true)
			require.Equal(t, slices.Concat(ints(1, 2000), ints(2001, most+2)), kept(t, s, most+2))
		},
		"searches the held rows once per second": func(t *testing.T, s *table[int, *state]) {
			looks := 0
			s.matters = func(*state) bool { looks++; return true }
			fill(s, 0, many, true)
			require.Less(t, looks, 2*many)
		},
		"a removed row makes room": func(t *testing.T, s *table[int, *state]) {
			fill(s, 0, most+1, true)
			s.remove(5)    // held
			s.remove(most) // recent
			s.remove(most) // not in the table
			require.Nil(t, s.get(5))
			fill(s, most+1, most+3, true)
			require.Equal(t, slices.Concat(ints(1, 5), ints(6, most), ints(most+1, most+3)), kept(t, s, most+3))
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { f(t, newStates()) })
		})
	}
}
