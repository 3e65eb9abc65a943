package storetest

import (
	"io"
	"net"
	"testing"

	"github.com/stretchr/testify/require"
)

// echo is a server that sends back the bytes that it gets, and records them.
func echo(t *testing.T) (addr string, got chan string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { l.Close() })
	got = make(chan string, 8)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				buf := make([]byte, 16)
				for {
					n, err := c.Read(buf)
					if err != nil {
						return
					}
					got <- string(buf[:n])
					if _, err := c.Write(buf[:n]); err != nil {
						return
					}
				}
			}()
		}
	}()
	return l.Addr().String(), got
}

func TestProxyInjectsEachFault(t *testing.T) {
	addr, got := echo(t)
	p := NewProxy(t, addr)
	connect := func() net.Conn {
		c, err := net.Dial("tcp", p.Addr())
		require.NoError(t, err)
		t.Cleanup(func() { c.Close() })
		return c
	}
	send := func(c net.Conn) (response string) {
		_, _ = c.Write([]byte("request!"))
		buf := make([]byte, 8)
		n, _ := io.ReadFull(c, buf)
		return string(buf[:n])
	}
	for _, fault := range []struct {
		fault    Fault
		arrives  bool
		response string
	}{{Unreachable, false, ""}, {ResponseLost, true, ""}, {ResponseCut, true, "requ"}} {
		c := connect()
		require.Equal(t, "request!", send(c))
		require.Equal(t, "request!", <-got)
		heal := p.Inject(fault.fault)
		require.Equal(t, fault.response, send(c))
		if fault.arrives {
			require.Equal(t, "request!", <-got)
		}
		require.Equal(t, fault.response, send(connect()), "a new connection meets the fault too")
		if fault.arrives {
			require.Equal(t, "request!", <-got)
		}
		require.Empty(t, got)
		heal()
		require.Equal(t, "request!", send(connect()))
		require.Equal(t, "request!", <-got)
	}
	require.Nil(t, p.Inject(Closed))
}
