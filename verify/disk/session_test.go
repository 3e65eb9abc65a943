package disk

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// A history is the recordings of processes that used one file, one after the other.
type history struct {
	work     Workload
	sessions [][]Call
}

// newHistory makes a history without a session.
func newHistory(t *testing.T, seed uint64, workers, rounds int) *history {
	return &history{
		work: Workload{Path: filepath.Join(scratch(t), "work.redo"), Seed: seed, Workers: workers, Rounds: rounds},
	}
}

// record runs the next process.
func (h *history) record(t *testing.T, in ...Injection) *history {
	t.Helper()
	h.work.Session = fmt.Sprint(len(h.sessions) + 1)
	h.sessions = append(h.sessions, record(t, h.work, in...))
	return h
}

// kill lets the last process die in its call number k, and gives its successor the file that it left.
func (h *history) kill(t *testing.T, k int) *history {
	t.Helper()
	last := len(h.sessions) - 1
	h.sessions[last] = h.sessions[last][:k]
	var d Disk
	for _, calls := range h.sessions {
		for _, c := range calls {
			require.NoError(t, d.Apply(c))
		}
	}
	content, exists := d.Latest()
	require.NoError(t, os.Remove(h.work.Path))
	if exists {
		require.NoError(t, os.WriteFile(h.work.Path, content, 0o600))
	}
	return h
}

// syncs returns the numbers of the last process's calls that are syncs, or only those of the file's meta pages.
func (h *history) syncs(meta bool) (at []int) {
	calls := h.sessions[len(h.sessions)-1]
	for i, c := range calls {
		wrote := i > 0 && calls[i-1].Kind == Write && calls[i-1].Offset < int64(2*os.Getpagesize())
		if (c.Kind == Sync || c.Kind == SyncDir) && (!meta || wrote) {
			at = append(at, i)
		}
	}
	return at
}

// replay returns a Replay of the history that stops at the first loss.
func (h *history) replay(t *testing.T, samples int) Replay {
	return Replay{
		Path: h.work.Path, Scratch: filepath.Join(scratch(t), "state.redo"), Samples: samples,
		Rand: rand.New(rand.NewPCG(h.work.Seed, 1)), Lost: func(err error) error { return err },
	}
}

// failed reports which kinds of syncs failed in a history.
func (h *history) failed(t *testing.T) (kinds []string) {
	var d Disk
	for _, calls := range h.sessions {
		for _, c := range calls {
			if c.Failed {
				kinds = append(kinds, failureOf(d, c))
			}
			require.NoError(t, d.Apply(c))
		}
	}
	return slices.Compact(kinds)
}

func failureOf(d Disk, c Call) string {
	switch {
	case c.Kind == SyncDir:
		return "name"
	case slices.ContainsFunc(d.pending, func(c change) bool { return !c.orphan && c.data == nil }):
		return "length"
	case slices.ContainsFunc(d.pending, func(c change) bool { return !c.orphan && c.off < int64(2*os.Getpagesize()) }):
		return "meta page"
	}
	return "pages"
}
