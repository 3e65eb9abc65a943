package storetest

import (
	"net"
	"sync"
	"testing"
)

// A Proxy is a TCP proxy between a store and its server, which injects faults. Its Inject is a function for [Faults]:
//
//	proxies := map[store.Store]*storetest.Proxy{}
//	storetest.Faults(func(_ *testing.T, st store.Store, f storetest.Fault) func() { return proxies[st].Inject(f) })
//
// ResponseLost needs a connection that was used before, because the handshake of a new one fails. A Proxy may be used
// concurrently.
type Proxy struct {
	target   string
	listener net.Listener
	done     sync.WaitGroup

	mu    sync.Mutex
	fault Fault
	conns map[net.Conn]bool
}

// NewProxy returns a proxy to the server at target, a host and a port. It is closed with t.Cleanup.
func NewProxy(t *testing.T, target string) *Proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{target: target, listener: l, conns: map[net.Conn]bool{}}
	p.done.Go(p.accept)
	t.Cleanup(func() {
		_ = l.Close()
		p.Inject(Unreachable)
		p.done.Wait()
	})
	return p
}

// Addr returns the address of the proxy, a host and a port.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Inject makes all connections meet the fault until heal is called. It returns nil for Closed, which a proxy can't
// inject.
func (p *Proxy) Inject(f Fault) (heal func()) {
	if f == Closed {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fault = f
	if f == Unreachable {
		for c := range p.conns {
			_ = c.Close()
		}
	}
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.fault = 0
	}
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.done.Go(func() { p.serve(client) })
	}
}

func (p *Proxy) serve(client net.Conn) {
	server, err := net.Dial("tcp", p.target)
	if err != nil {
		_ = client.Close()
		return
	}
	if p.add(client, server) {
		var requests sync.WaitGroup
		requests.Go(func() {
			p.copy(server, client, false)
			_ = server.Close()
		})
		p.copy(client, server, true)
		_ = client.Close()
		requests.Wait()
	}
	p.remove(client, server)
}

// add registers the connections, unless the server is unreachable.
func (p *Proxy) add(conns ...net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range conns {
		p.conns[c] = true
	}
	return p.fault != Unreachable
}

func (p *Proxy) remove(conns ...net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range conns {
		_ = c.Close()
		delete(p.conns, c)
	}
}

// copy forwards bytes until a connection ends. A fault ends it at the first response.
func (p *Proxy) copy(to, from net.Conn, responses bool) {
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		if err != nil {
			return
		}
		p.mu.Lock()
		f := p.fault
		p.mu.Unlock()
		switch {
		case responses && f == ResponseLost:
			return
		case responses && f == ResponseCut:
			_, _ = to.Write(buf[:n/2])
			return
		}
		if _, err := to.Write(buf[:n]); err != nil {
			return
		}
	}
}
