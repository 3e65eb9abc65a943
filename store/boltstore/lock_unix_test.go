//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package boltstore

import (
	"os"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestLockIsHeldByOneOpenFile(t *testing.T) {
	path := tempFile(t)
	require.NoError(t, os.WriteFile(path, nil, 0o600))
	first, err := os.Open(path)
	require.NoError(t, err)
	second, err := os.Open(path)
	require.NoError(t, err)
	defer second.Close()
	require.NoError(t, lockFile(first))
	require.NoError(t, lockFile(first), "taking it again does no harm: bbolt does")
	require.ErrorIs(t, lockFile(second), errLocked)
	require.NoError(t, first.Close())
	require.NoError(t, lockFile(second))
}

func TestOpenRefusesWhatIsNoRegularFile(t *testing.T) {
	path := tempFile(t)
	require.NoError(t, syscall.Mkfifo(path, 0o600))
	_, err := Open(path)
	require.ErrorContains(t, err, "not a regular file")
	require.ErrorContains(t, err, path)
}
