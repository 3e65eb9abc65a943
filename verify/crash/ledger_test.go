package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// A killed process may leave half a line. The next one ends it, and no reader takes it for a line.
func TestTornLineIsSkipped(t *testing.T) {
	path := filepath.Join(t.TempDir(), "diary")
	require.NoError(t, os.WriteFile(path, []byte(`{"operation":"a","key":"1"}`+"\n"+`{"operation":"b","k`), 0o644))
	lines, err := readDiary[request](path)
	require.NoError(t, err)
	require.Equal(t, []request{{"a", "1"}}, lines)
	d, err := openDiary(path)
	require.NoError(t, err)
	require.NoError(t, d.write(request{"c", "3"}))
	lines, err = readDiary[request](path)
	require.NoError(t, err)
	require.Equal(t, []request{{"a", "1"}, {"c", "3"}}, lines)
	none, err := readDiary[request](path + " of nobody")
	require.NoError(t, err)
	require.Empty(t, none)
}

// Two processes share a ledger. One that has read it stops earlier owners of the key, in the other one too.
func TestLedgerRefusesEarlierOwners(t *testing.T) {
	dir := t.TempDir()
	one, err := openFenced(ledgerFile(dir))
	require.NoError(t, err)
	two, err := openFenced(ledgerFile(dir))
	require.NoError(t, err)
	none, err := two.find("k", 2)
	require.NoError(t, err)
	require.Nil(t, none)
	require.ErrorIs(t, one.enter(effect{Key: "k", Fence: 1, Run: "stale"}, true), errStale)
	_, err = one.find("k", 1)
	require.ErrorIs(t, err, errStale)
	require.NoError(t, one.enter(effect{Key: "other", Fence: 1, Run: "a"}, true))
	require.NoError(t, two.enter(effect{Key: "k", Fence: 2, Run: "b"}, true))
	found, err := one.find("k", 3)
	require.NoError(t, err)
	require.Equal(t, "b", found.Run)

	require.NoError(t, one.enter(effect{Key: "k", Fence: 1, Run: "unfenced"}, false))
	effects, err := ledgerOf(dir)
	require.NoError(t, err)
	require.Len(t, effects, 3, "marks are no effects")
}
