package oneoperation

import (
	"os"
	"strconv"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/store/memstore"
)

func number(t *testing.T, name string, otherwise int) int {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	require.NoError(t, err, name)
	return n
}

// lives plays n lives from the first seed on. It returns the first that breaks a rule, or nil.
func lives(t *testing.T, first, n int, d plant) (broken *life) {
	t.Helper()
	for seed := first; seed < first+n && broken == nil; seed++ {
		synctest.Test(t, func(t *testing.T) {
			st := memstore.New()
			defer st.Close()
			l, err := newLife(uint64(seed), st, d)
			require.NoError(t, err)
			violation, err := l.play()
			require.NoError(t, err)
			if violation != "" {
				broken = l
			}
		})
	}
	return broken
}

func TestLives(t *testing.T) {
	first, n := number(t, "REDO_VERIFY_SEED", 0), played*number(t, "REDO_VERIFY_ROUNDS", 1)
	if l := lives(t, first, n, plant{}); l != nil {
		require.Fail(t, l.violation, "%v", l)
	}
}
