//go:build unix

package stage

import (
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// A stopped part responds when it continues. A part that has ended gets no signal.
func TestAPartIsStopped(t *testing.T) {
	p, _, _ := startPart(t, &strings.Builder{})
	require.NoError(t, p.Signal(syscall.SIGSTOP))
	require.NoError(t, p.Signal(syscall.SIGCONT))
	n, err := Ask[int](p, "sum a b")
	require.NoError(t, err)
	require.Equal(t, 2, n)
	p.Kill()
	require.ErrorIs(t, p.Signal(syscall.SIGSTOP), os.ErrProcessDone)
}
