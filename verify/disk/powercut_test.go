package disk

import (
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
