package main

import (
	"io"
	"math/rand/v2"
	"net"
	"sync/atomic"
)

// A link forwards connections, and loses the requests or the responses of some.
type link struct {
	net.Listener
	target     string
	all, ended atomic.Int64
}

func newLink(target string) (*link, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	k := &link{Listener: l, target: target}
	go k.serve()
	return k, nil
}

// URL returns the link's address.
func (k *link) URL() string { return "http://" + k.Addr().String() }

func (k *link) accepted() int64 { return k.all.Load() }

func (k *link) cut() int64 { return k.ended.Load() }

func (k *link) serve() {
	for {
		phone, err := k.Accept()
		if err != nil {
			return
		}
		k.all.Add(1)
		go k.forward(phone.(*net.TCPConn))
	}
}

// forward cuts one connection in five before the request has arrived, and one in five when the response begins.
func (k *link) forward(phone *net.TCPConn) {
	defer func() { _ = phone.Close() }()
	gateway, err := net.Dial("tcp", k.target)
	if err != nil {
		return
	}
	defer func() { _ = gateway.Close() }()
	fate := rand.IntN(5)
	if fate == 0 {
		k.ended.Add(1)
		return
	}
	go func() {
		_, _ = io.Copy(gateway, phone)
		_ = gateway.(*net.TCPConn).CloseWrite()
	}()
	if fate == 1 {
		_, _ = gateway.Read(make([]byte, 1)) // the response is there, and never arrives
		k.ended.Add(1)
		return
	}
	_, _ = io.Copy(phone, gateway)
}
