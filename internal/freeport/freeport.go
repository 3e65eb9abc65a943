// Package freeport finds ports for servers that can't listen on port 0. Tests start such a server in another process,
// or again on the same port.
package freeport

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync/atomic"
)

// Systems give higher ports to connections, and to listeners on port 0. Such a connection could take the port of a
// server that is down, even as both of its ends.
const (
	first = 10000
	count = 12000
)

// BusOffset is the distance from the port of a Redis Cluster's node to the port that other nodes connect to.
const BusOffset = 10000

var last atomic.Uint32

func init() { last.Store(rand.Uint32N(count)) }

// Port returns a port of the loopback interface that no program listens on. The port above it by [BusOffset] is free
// too. A process gets the same port again after 12,000 others. Another process may take the port before the server
// starts.
func Port() (int, error) {
	var errs []error
	for range 100 {
		port := first + int(last.Add(1)%count)
		err := errors.Join(try(port), try(port+BusOffset))
		if err == nil {
			return port, nil
		}
		errs = append(errs, err)
	}
	return 0, fmt.Errorf("freeport: no port is free: %w", errors.Join(errs...))
}

// Address returns a free [Port] with the host 127.0.0.1.
func Address() (string, error) {
	port, err := Port()
	return fmt.Sprint("127.0.0.1:", port), err
}

func try(port int) error {
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return err
	}
	return l.Close()
}
