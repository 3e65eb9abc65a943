// Package freeport finds ports for servers that can't listen on port 0. Tests start such a server in another process,
// or again on the same port.
package freeport

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
)

// Systems give higher ports to connections, and to listeners on port 0. Such a connection could take the port of a
// server that is down, even as both of its ends.
//
// Test processes run side by side, and a server that is down holds no port. So each process claims whole blocks. It
// listens on the first port of a block until it ends, and gives out the others.
const (
	first     = 10000
	blockSize = 100
	blocks    = 100
	maxBlocks = 10 // of one process
)

// BusOffset is the distance from the port of a Redis Cluster's node to the port that other nodes connect to. No block
// has such a port.
const BusOffset = blocks * blockSize

// A pool gives out the ports of the blocks that it has claimed.
type pool struct {
	mu     sync.Mutex
	claims []net.Listener
	ports  []int // of the claimed blocks
	next   int   // the index in ports
}

var process pool

// Port returns a port of the loopback interface that no program listens on. The port above it by [BusOffset] is free
// too. No other process gets the port from this package until this one ends. This process gets it again after 990
// others. It gets it earlier if other processes have claimed all blocks.
func Port() (int, error) { return process.port() }

// Address returns a free [Port] with the host 127.0.0.1.
func Address() (string, error) {
	port, err := Port()
	return fmt.Sprint("127.0.0.1:", port), err
}

func (p *pool) port() (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var err error
	for range maxBlocks * blockSize {
		if p.next == len(p.ports) {
			p.claim()
			if len(p.ports) == 0 {
				return 0, errors.New("freeport: other processes have claimed all blocks of ports")
			}
		}
		port := p.ports[p.next]
		p.next++
		if err = errors.Join(try(port), try(port+BusOffset)); err == nil {
			return port, nil
		}
	}
	return 0, fmt.Errorf("freeport: no port is free; the last one tried: %w", err)
}

// claim adds the ports of a free block. If there is none, or the pool has maxBlocks, its ports start over.
func (p *pool) claim() {
	for _, block := range rand.Perm(blocks) {
		if len(p.claims) == maxBlocks {
			break
		}
		start := first + block*blockSize
		l, err := listen(start)
		if err != nil {
			continue
		}
		p.claims = append(p.claims, l)
		for port := start + 1; port < start+blockSize; port++ {
			p.ports = append(p.ports, port)
		}
		return
	}
	p.next = 0
}

func try(port int) error {
	l, err := listen(port)
	if err != nil {
		return err
	}
	return l.Close()
}

func listen(port int) (net.Listener, error) {
	return net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
}
