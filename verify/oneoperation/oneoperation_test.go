package oneoperation

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/store/memstore"
	"github.com/redo-go/redo/verify/internal/random"
)

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
	first, n, err := random.Seeds(played)
	require.NoError(t, err)
	if l := lives(t, first, n, plant{}); l != nil {
		require.Fail(t, l.Violation(), "%v", l)
	}
}
