package oneline

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/inbox"
	"github.com/redo-go/redo/outbox/memoutbox"
	"github.com/redo-go/redo/verify/internal/random"
)

// lives plays n lives from the first seed on. It returns the first that breaks a rule, or nil.
func lives(t *testing.T, first, n int, wrap func(inbox.Queue) inbox.Queue) (broken *life) {
	t.Helper()
	for seed := first; seed < first+n && broken == nil; seed++ {
		synctest.Test(t, func(t *testing.T) {
			l := newLife(uint64(seed), wrap(memoutbox.New()))
			violation, err := l.play()
			require.NoError(t, err)
			if violation != "" {
				broken = l
			}
		})
	}
	return broken
}

func sound(q inbox.Queue) inbox.Queue { return q }

func TestLives(t *testing.T) {
	first, n, err := random.Seeds(played)
	require.NoError(t, err)
	if l := lives(t, first, n, sound); l != nil {
		require.Fail(t, l.Violation(), "%v", l)
	}
}
