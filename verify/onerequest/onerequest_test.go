package onerequest

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/store/memstore"
	"github.com/redo-go/redo/verify/internal/random"
)

// lives plays n lives from the first seed on. It returns the first that breaks a rule, or nil.
func lives(t *testing.T, first, n int, wrap func(backend) backend, keyless bool) (broken *life) {
	t.Helper()
	for seed := first; seed < first+n && broken == nil; seed++ {
		synctest.Test(t, func(t *testing.T) {
			mem := memstore.New()
			defer mem.Close()
			l, err := newLife(uint64(seed), wrap(mem))
			require.NoError(t, err)
			l.upstream.keyless = keyless
			violation, err := l.play()
			require.NoError(t, err)
			if violation != "" {
				broken = l
			}
		})
	}
	return broken
}

func sound(st backend) backend { return st }

func TestLives(t *testing.T) {
	first, n, err := random.Seeds(played)
	require.NoError(t, err)
	if l := lives(t, first, n, sound, false); l != nil {
		require.Fail(t, l.Violation(), "%v", l)
	}
}
