package main

import (
	"errors"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// A link is a lossy way to the processes of one kind. It forwards each connection to one of them. Some connections are
// slow, break off within the request or within the response, or lose the response.
type link struct {
	address string
	targets func() []string

	mu       sync.Mutex
	listener net.Listener
	rand     *rand.Rand
	calm     bool
	closed   bool
	conns    map[net.Conn]bool

	cuts atomic.Int64
}

// newLink returns a link with an address. It accepts connections after open.
func newLink(seed, number uint64) (*link, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	return &link{
		address: l.Addr().String(), listener: l, rand: rand.New(rand.NewPCG(seed, number)),
		conns: map[net.Conn]bool{},
	}, nil
}

// open forwards connections to one of the addresses that targets returns.
func (k *link) open(targets func() []string) {
	k.targets = targets
	go k.serve(k.listener)
}

// URL returns the link's address.
func (k *link) URL() string { return "http://" + k.address }

// listen listens again on the link's address.
func (k *link) listen() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed {
		return nil
	}
	l, err := net.Listen("tcp", k.address)
	if err != nil {
		return err
	}
	k.listener = l
	go k.serve(l)
	return nil
}

func (k *link) serve(l net.Listener) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		go k.forward(conn)
	}
}

// refuse refuses connections for a time. Requests that meet it are never sent.
func (k *link) refuse(d time.Duration) error {
	k.mu.Lock()
	_ = k.listener.Close()
	k.mu.Unlock()
	time.Sleep(d)
	for range 100 {
		err := k.listen()
		if !errors.Is(err, syscall.EADDRINUSE) {
			return err
		}
		time.Sleep(20 * time.Millisecond) // another program's connection has the port for a while
	}
	return k.listen()
}

// rest lets all later connections through.
func (k *link) rest() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.calm = true
}

// close ends the link with its connections.
func (k *link) close() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.closed = true
	_ = k.listener.Close()
	for conn := range k.conns {
		_ = conn.Close()
	}
}

// A fault is what happens to a connection.
type fault struct {
	request, response int           // the bytes after which it breaks off, -1 for never
	delay             time.Duration // of each piece
	deaf              bool          // the response is lost, and the connection ends later
}

// deafness is the time after which a connection without a response ends.
const deafness = 1500 * time.Millisecond

// fault draws the fault of a connection.
func (k *link) fault() (f fault, target string) {
	targets := k.targets()
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(targets) > 0 {
		target = targets[k.rand.IntN(len(targets))]
	}
	f = fault{request: -1, response: -1}
	if k.calm {
		return f, target
	}
	switch n := k.rand.IntN(100); {
	case n < 12:
		f.request = k.rand.IntN(1500)
	case n < 20:
		f.response = 0
	case n < 30:
		f.response = k.rand.IntN(1500)
	case n < 40:
		f.delay = time.Duration(k.rand.Int64N(int64(40 * time.Millisecond)))
	case n < 41:
		f.deaf = true
	}
	return f, target
}

// forward carries a connection to a process. Without one it is closed.
func (k *link) forward(conn net.Conn) {
	defer k.track(conn)()
	f, target := k.fault()
	if target == "" {
		return
	}
	up, err := net.DialTimeout("tcp", target, time.Second)
	if err != nil {
		return
	}
	defer k.track(up)()
	ended := make(chan struct{}, 2)
	go func() {
		k.carry(up, conn, f.request, f.delay)
		ended <- struct{}{}
	}()
	go func() {
		if f.deaf {
			_, _ = up.Read(make([]byte, 1))
			k.cuts.Add(1)
			time.Sleep(deafness)
		} else {
			k.carry(conn, up, f.response, f.delay)
		}
		ended <- struct{}{}
	}()
	<-ended
}

// track closes the connection at the end of its forward, or with the link.
func (k *link) track(conn net.Conn) (end func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.conns[conn] = true
	return func() {
		_ = conn.Close()
		k.mu.Lock()
		defer k.mu.Unlock()
		delete(k.conns, conn)
	}
}

// carry copies until the source ends, or until it has copied a number of bytes. It then resets the connection.
func (k *link) carry(to, from net.Conn, limit int, delay time.Duration) {
	piece := make([]byte, 4096)
	for {
		n, err := from.Read(piece)
		if limit >= 0 && n >= limit {
			_, _ = to.Write(piece[:limit])
			k.cuts.Add(1)
			for _, conn := range []net.Conn{to, from} {
				_ = conn.(*net.TCPConn).SetLinger(0)
			}
			return
		}
		if limit >= 0 {
			limit -= n
		}
		time.Sleep(delay)
		if _, failed := to.Write(piece[:n]); failed != nil || err != nil {
			return
		}
	}
}
