package servertest

import (
	"context"
	"fmt"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
)

// memListener accepts the connections of its Dial.
type memListener struct {
	backlog chan net.Conn
	done    chan struct{}
	close   func()
	dialed  atomic.Int64
}

func newMemListener() *memListener {
	l := &memListener{backlog: make(chan net.Conn), done: make(chan struct{})}
	l.close = sync.OnceFunc(func() { close(l.done) })
	return l
}

const memServerAddr memAddr = "memory:0"

// Dial connects to the listener. Once it is closed, errors.Is(err, syscall.ECONNREFUSED) holds.
func (l *memListener) Dial(ctx context.Context) (net.Conn, error) {
	client, server := newPipe(memAddr(fmt.Sprintf("memory:%d", l.dialed.Add(1))), memServerAddr)
	refused := func(err error) error {
		return &net.OpError{Op: "dial", Net: memNetwork, Addr: memServerAddr, Err: err}
	}
	select { // a closed listener refuses even if it could also accept
	case <-l.done:
		return nil, refused(os.NewSyscallError("connect", syscall.ECONNREFUSED))
	default:
	}
	select {
	case l.backlog <- server:
		return client, nil
	case <-l.done:
		return nil, refused(os.NewSyscallError("connect", syscall.ECONNREFUSED))
	case <-ctx.Done():
		return nil, refused(ctx.Err())
	}
}

func (l *memListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.backlog:
		return c, nil
	case <-l.done:
		return nil, &net.OpError{Op: "accept", Net: memNetwork, Addr: memServerAddr, Err: net.ErrClosed}
	}
}

func (l *memListener) Close() error {
	l.close()
	return nil
}

func (l *memListener) Addr() net.Addr { return memServerAddr }
