package disk

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/internal/racetest"
)

// oneByOne returns the history of a process whose every commit is acknowledged before the next one begins.
func oneByOne(t *testing.T) *history {
	h := newHistory(t, *seed, 1, 6)
	h.work.Plain = true
	return h.record(t)
}

// Each sync that a promise rests on is needed: a disk that drops it loses something, and the replay notices.
func TestEachDroppedSyncIsNoticed(t *testing.T) {
	racetest.Repeats(t) // boltstore's own tests run this code
	needStrace(t)
	h := oneByOne(t)
	n, err := h.replay(t, 2).Run(t.Context(), h.sessions...)
	require.NoError(t, err, "the twin: no sync is dropped")
	require.Greater(t, len(n.Needed), 10)
	states := 0
	for _, sync := range n.Needed {
		r := h.replay(t, 2)
		r.Dropped = sync
		n, err := r.Run(t.Context(), h.sessions...)
		require.ErrorIs(t, err, ErrLoss, "sync %d of %d", sync, n.Syncs)
		states += n.States
	}
	t.Logf("%d of %d syncs were dropped, one at a time, and noticed within %d states", len(n.Needed), n.Syncs, states)
}

// The sync of Open is needed if the process before it was killed before its own.
func TestDroppedSyncOfOpenIsNoticed(t *testing.T) {
	racetest.Repeats(t) // boltstore's own tests run this code
	needStrace(t)
	h := oneByOne(t)
	at := h.syncs(true)
	before := len(h.syncs(false))
	h.kill(t, at[len(at)-1]).record(t)
	_, err := h.replay(t, 2).Run(t.Context(), h.sessions...)
	require.NoError(t, err, "the twin: no sync is dropped")
	r := h.replay(t, 2)
	r.Dropped = before
	_, err = r.Run(t.Context(), h.sessions...)
	require.ErrorIs(t, err, ErrLoss)
}

// A build whose bbolt syncs nothing for two commits is noticed.
func TestBuildWithoutASyncIsNoticed(t *testing.T) {
	needStrace(t)
	h := newHistory(t, *seed, 1, 2)
	h.work.NoSync = true
	_, err := h.record(t).replay(t, 2).Run(t.Context(), h.sessions...)
	require.ErrorIs(t, err, ErrLoss)

	h = newHistory(t, *seed, 1, 2)
	_, err = h.record(t).replay(t, 2).Run(t.Context(), h.sessions...)
	require.NoError(t, err, "the twin: the same work with syncs")
}

// A disk that reports success and writes nothing is noticed: strace replaces the second sync of each thread.
func TestDiskThatIgnoresASyncIsNoticed(t *testing.T) {
	needStrace(t)
	h := newHistory(t, *seed, 0, 6).record(t, "fdatasync:retval=0:when=12")
	_, err := h.replay(t, 2).Run(t.Context(), h.sessions...)
	require.ErrorIs(t, err, ErrLoss)
}
