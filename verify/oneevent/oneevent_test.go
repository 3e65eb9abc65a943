package oneevent

import (
	"os"
	"strconv"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/inbox"
	"github.com/redo-go/redo/outbox/memoutbox"
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
	first, n := number(t, "REDO_VERIFY_SEED", 0), played*number(t, "REDO_VERIFY_ROUNDS", 1)
	if l := lives(t, first, n, sound); l != nil {
		require.Fail(t, l.violation, "%v", l)
	}
}
