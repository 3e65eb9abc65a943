package main

import (
	"errors"
	"net"
	"net/http"
)

func loopbackScenario() scenario {
	payload := make([]byte, smallBody)
	s := scenario{
		name:      "loopback",
		title:     "a 256-byte POST over a loopback socket, one after the other; allocations are both ends'",
		reference: byNetHTTP,
	}
	for _, c := range clients {
		s.contestants = append(s.contestants, contestant{c.name, func(string) (runner, error) {
			url, stop, err := listen()
			if err != nil {
				return runner{}, err
			}
			transport := &http.Transport{}
			closer := func() error {
				transport.CloseIdleConnections()
				return stop()
			}
			send, err := c.over(transport)
			if err != nil {
				return runner{}, errors.Join(err, closer())
			}
			return serially(func(int) error { return send(url, payload) }, closer), nil
		}})
	}
	return s
}

// listen starts a server that does what memoryTransport does.
func listen() (url string, stop func() error, err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if drain(r.Body) != nil {
			return
		}
		w.Header()["Content-Type"] = contentType
		w.WriteHeader(http.StatusCreated)
		_, _ = w.Write(answerBody) // a client that is gone reports it
	})}
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	return "http://" + l.Addr().String() + "/v1/refunds", func() error {
		err := server.Close()
		if s := <-served; !errors.Is(s, http.ErrServerClosed) {
			err = errors.Join(err, s)
		}
		return err
	}, nil
}
