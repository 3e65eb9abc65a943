package freeport

import (
	"fmt"
	"net"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPortsAreFreeAndDiffer(t *testing.T) {
	seen := map[int]bool{}
	for range 100 {
		port, err := Port()
		require.NoError(t, err)
		require.False(t, seen[port])
		seen[port] = true
		require.Less(t, port+BusOffset, 32768, "Linux gives ports from here on to connections")
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		require.NoError(t, err)
		require.NoError(t, l.Close())
	}
}

func TestPortsInUseArePassedOver(t *testing.T) {
	for _, offset := range []int{0, BusOffset} {
		next := first + int((last.Load()+1)%count)
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", next+offset))
		require.NoError(t, err)
		port, err := Port()
		require.NoError(t, err)
		require.NotEqual(t, next, port)
		require.NoError(t, l.Close())
	}
}
