package freeport

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
)

// A process of this variable prints as many ports as two blocks have.
const printsPorts = "REDO_TEST_PRINTS_PORTS"

func TestMain(m *testing.M) {
	if os.Getenv(printsPorts) == "" {
		os.Exit(m.Run())
	}
	for range 2 * (blockSize - 1) {
		fmt.Println(Port())
	}
	// The process keeps its ports until its input ends.
	_, _ = os.Stdin.Read(make([]byte, 1))
}

func TestPortsAreFreeAndDiffer(t *testing.T) {
	seen := map[int]bool{}
	for range 2 * blockSize {
		port, err := Port()
		require.NoError(t, err)
		require.False(t, seen[port])
		seen[port] = true
		require.Less(t, port+BusOffset, 32768, "Linux gives ports from here on to connections")
		l, err := listen(port)
		require.NoError(t, err)
		require.NoError(t, l.Close())
	}
}

func TestPortsInUseArePassedOver(t *testing.T) {
	for _, offset := range []int{0, BusOffset} {
		p := new(pool)
		t.Cleanup(p.release)
		port, err := p.port()
		require.NoError(t, err)
		l, err := listen(port + 1 + offset)
		require.NoError(t, err)
		next, err := p.port()
		require.NoError(t, err)
		require.Greater(t, next, port+1)
		require.NoError(t, l.Close())
	}
}

// A server that is down for a moment must find its port free again, whatever other test processes start meanwhile.
func TestNoProcessGetsThePortsOfAnother(t *testing.T) {
	got := map[string]bool{}
	for range 4 {
		cmd := exec.CommandContext(t.Context(), os.Args[0])
		cmd.Env = append(os.Environ(), printsPorts+"=1")
		end, err := cmd.StdinPipe()
		require.NoError(t, err)
		out, err := cmd.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		t.Cleanup(func() {
			_ = end.Close()
			_ = cmd.Wait()
		})
		for range 2 * (blockSize - 1) {
			var port, failed string
			_, err := fmt.Fscan(out, &port, &failed)
			require.NoError(t, err)
			require.Equal(t, "<nil>", failed)
			require.False(t, got[port], port)
			got[port] = true
		}
	}
}

func TestAPoolStartsOverWhenItHasItsBlocks(t *testing.T) {
	p := new(pool)
	t.Cleanup(p.release)
	first, err := p.port()
	require.NoError(t, err)
	for range maxBlocks * (blockSize - 1) {
		_, err = p.port()
		require.NoError(t, err)
	}
	require.LessOrEqual(t, len(p.claims), maxBlocks)
	require.Equal(t, first, p.ports[0])
}

func TestAnErrorNamesTheReason(t *testing.T) {
	p := &pool{ports: []int{80_000}, claims: make([]net.Listener, maxBlocks)}
	_, err := p.port()
	require.ErrorContains(t, err, "freeport: no port is free; the last one tried: listen tcp: address 80000: invalid port")
}

func (p *pool) release() {
	for _, l := range p.claims {
		_ = l.Close()
	}
}
