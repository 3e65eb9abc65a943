package disk

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func small(t *testing.T, seed uint64) Workload {
	return Workload{Path: filepath.Join(scratch(t), "work.redo"), Session: "1", Seed: seed, Workers: 3, Rounds: 6}
}

func TestPowerCut(t *testing.T) {
	needStrace(t)
	w := small(t, 1)
	first := record(t, w)
	w.Session = "2"
	second := record(t, w)
	n, err := replay(t, w).Run(t.Context(), first, second)
	t.Logf("%+v", n)
	require.NoError(t, err)
}

func TestDropped(t *testing.T) {
	needStrace(t)
	w := small(t, 1)
	w.Rounds = 3
	first := record(t, w)
	n, err := replay(t, w).Run(t.Context(), first)
	t.Logf("%+v %v", n, err)
	for i := 1; i <= n.Syncs; i++ {
		r := replay(t, w)
		r.Dropped = i
		n, err := r.Run(t.Context(), first)
		t.Logf("%d: states %d, idle %v err: %.200v", i, n.States, n.Idle, err)
	}
}

func TestNoSync(t *testing.T) {
	needStrace(t)
	w := small(t, 1)
	w.NoSync = true
	first := record(t, w)
	n, err := replay(t, w).Run(t.Context(), first)
	t.Logf("%+v %v", n, err)
	require.ErrorIs(t, err, ErrLoss)
}

func TestKilled(t *testing.T) {
	needStrace(t)
	w := small(t, 1)
	w.Rounds = 3
	first := record(t, w)
	bad := 0
	for k := range first {
		if first[k].Kind != Sync && first[k].Kind != SyncDir {
			continue
		}
		var d Disk
		for _, c := range first[:k] {
			require.NoError(t, d.Apply(c))
		}
		w.Path = filepath.Join(scratch(t), "work.redo")
		content, _ := d.Latest()
		require.NoError(t, os.WriteFile(w.Path, content, 0o600))
		w.Session = "2"
		second := record(t, w)
		for i := range first {
			if first[i].Kind != Ack && first[i].Kind != SyncDir {
				first[i].Path = w.Path
			}
		}
		n, err := replay(t, w).Run(t.Context(), first[:k], second)
		t.Logf("%d: %+v %.600v", k, n, err)
		if err != nil {
			if bad++; bad > 4 {
				break
			}
		}
	}
}

func TestEIO(t *testing.T) {
	needStrace(t)
	for _, workers := range []int{0, 3} {
		for k := range 12 {
			for _, call := range []string{"fdatasync", "fsync"} {
				w := small(t, 1)
				w.Workers = workers
				first := record(t, w, Injection(fmt.Sprintf("%s:error=EIO:when=%d", call, k+1)))
				w.Session = "2"
				second := record(t, w)
				n, err := replay(t, w).Run(t.Context(), first, second)
				t.Logf("%d %s %d: %+v %.600v", workers, call, k+1, n, err)
			}
		}
	}
}
