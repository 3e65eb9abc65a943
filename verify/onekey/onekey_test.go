package onekey

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/memstore"
	"github.com/redo-go/redo/verify/internal/random"
)

// lives plays n lives from the first seed on. It returns the first that breaks a rule, or nil.
func lives(t *testing.T, first, n int, wrap func(store.Store) store.Store) (broken *life) {
	t.Helper()
	for seed := first; seed < first+n && broken == nil; seed++ {
		synctest.Test(t, func(t *testing.T) {
			st := memstore.New()
			defer st.Close()
			l := newLife(uint64(seed), wrap(st))
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
	if l := lives(t, first, n, func(st store.Store) store.Store { return st }); l != nil {
		require.Fail(t, l.Violation(), "%v", l)
	}
}
