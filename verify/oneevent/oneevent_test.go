package oneevent

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/inbox"
	"github.com/redo-go/redo/outbox/memoutbox"
	"github.com/redo-go/redo/store/memstore"
	"github.com/redo-go/redo/verify/internal/random"
)

// lives plays n lives from the first seed on. It returns the first that breaks a rule, or nil.
func lives(
	t *testing.T, first, n int, wrap func(inbox.Store, inbox.Queue) (inbox.Store, inbox.Queue),
) (broken *life) {
	t.Helper()
	for seed := first; seed < first+n && broken == nil; seed++ {
		synctest.Test(t, func(t *testing.T) {
			mem := memstore.New()
			defer mem.Close()
			st, q := wrap(mem, memoutbox.New())
			l := newLife(uint64(seed), st, q)
			violation, err := l.play()
			require.NoError(t, err)
			if violation != "" {
				broken = l
			}
		})
	}
	return broken
}

func sound(st inbox.Store, q inbox.Queue) (inbox.Store, inbox.Queue) { return st, q }

func TestLives(t *testing.T) {
	first, n, err := random.Seeds(played)
	require.NoError(t, err)
	if l := lives(t, first, n, sound); l != nil {
		require.Fail(t, l.Violation(), "%v", l)
	}
}
