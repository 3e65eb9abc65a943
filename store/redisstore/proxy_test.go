package redisstore_test

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// A fault is the proxy's treatment of a script that a client sends.
type fault int

const (
	pass      fault = iota
	cut             // pass it on, and close the connection instead of passing the response on
	stall           // read it, and do nothing
	stallHere       // read everything, greetings too, and do nothing
)

// A proxy between a store and its server injects faults.
type proxy struct {
	target   string
	listener net.Listener
	faulted  chan struct{} // gets one for each fault that was done

	mu    sync.Mutex
	fault fault
	conns []net.Conn
	turns int // how often a client has spoken, on connections that have nothing else under way
}

func newProxy(t *testing.T, port int) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	p := &proxy{target: fmt.Sprintf("127.0.0.1:%d", port), listener: l, faulted: make(chan struct{}, 1024)}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { p.serve(c) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		p.mu.Lock()
		for _, c := range p.conns {
			c.Close()
		}
		p.mu.Unlock()
		wg.Wait()
	})
	return p
}

func (p *proxy) url() string { return "redis://" + p.listener.Addr().String() }

func (p *proxy) set(f fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fault = f
}

func (p *proxy) now() fault {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.fault
}

// roundTrips counts those of a call, on connections that it has for itself.
func (p *proxy) roundTrips(call func()) int {
	p.mu.Lock()
	before := p.turns
	p.mu.Unlock()
	call()
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.turns - before
}

func (p *proxy) serve(client net.Conn) {
	server, err := net.Dial("tcp", p.target)
	if err != nil {
		client.Close()
		return
	}
	p.mu.Lock()
	p.conns = append(p.conns, client, server)
	p.mu.Unlock()
	var answers sync.WaitGroup
	defer answers.Wait()
	defer client.Close()
	defer server.Close()

	mine := pass // the fault this connection is under; only requests look at it
	idle := true // there was no request since the last response
	var mu sync.Mutex
	answers.Go(func() {
		buf := make([]byte, 64<<10)
		for {
			n, err := server.Read(buf)
			mu.Lock()
			f := mine
			idle = true
			mu.Unlock()
			if err != nil || f == cut {
				if f == cut {
					p.faulted <- struct{}{}
				}
				client.Close()
				return
			}
			if _, err := client.Write(buf[:n]); err != nil {
				return
			}
		}
	})
	buf := make([]byte, 64<<10)
	for {
		n, err := client.Read(buf)
		if err != nil {
			return
		}
		f := p.now()
		if f != stallHere && !bytes.Contains(buf[:n], []byte("EVAL")) {
			f = pass
		}
		mu.Lock()
		mine = f
		turn := idle
		idle = false
		mu.Unlock()
		if turn {
			p.mu.Lock()
			p.turns++
			p.mu.Unlock()
		}
		if f == stall || f == stallHere {
			p.faulted <- struct{}{}
			_, _ = io.Copy(io.Discard, client)
			return
		}
		if _, err := server.Write(buf[:n]); err != nil {
			return
		}
	}
}
