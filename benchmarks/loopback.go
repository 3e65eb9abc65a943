package main

import (
	"errors"
	"net"
	"net/http"
	"sync/atomic"
)

func loopbackScenario() scenario {
	return scenario{
		name:        "loopback",
		title:       "a 256-byte POST over a loopback socket, one after the other; allocations are both ends'",
		reference:   byKeyedNetHTTP,
		contestants: overLoopback(anyClient, func() http.Handler { return created }),
	}
}

func retryLoopbackScenario() scenario {
	return scenario{
		name:        "retry-loopback",
		title:       "a 256-byte POST with the responses 503, then 201, over a loopback socket, without a delay",
		reference:   byKeyedStandard,
		contestants: overLoopback(retryingClient, flaky),
	}
}

// overLoopback returns the chosen clients as contestants. Each has its own server, transport and connection.
func overLoopback(chosen func(clientKind) bool, handler func() http.Handler) []contestant {
	payload := make([]byte, smallBody)
	var all []contestant
	for _, c := range clients {
		if !chosen(c) {
			continue
		}
		all = append(all, contestant{c.name, func(string) (runner, error) {
			url, stop, err := listen(handler())
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
	return all
}

// created is memoryTransport's response, over a socket.
var created = respond(http.StatusCreated)

// flaky is flakyTransport's behaviour, over a socket. Its handler serves one caller at a time.
func flaky() http.Handler {
	unavailable := respond(http.StatusServiceUnavailable)
	var requests atomic.Int64
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if requests.Add(1)%2 == 1 {
			unavailable(w, r)
			return
		}
		created(w, r)
	})
}

// respond returns a handler that reads each request to its end and responds with status.
func respond(status int) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if drain(r.Body) != nil {
			return
		}
		w.Header()["Content-Type"] = contentType
		w.WriteHeader(status)
		_, _ = w.Write(answerBody) // a client that is gone reports it
	}
}

// listen starts a server with the handler on a free port.
func listen(handler http.Handler) (url string, stop func() error, err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	server := &http.Server{Handler: handler}
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
