package post

import (
	"errors"
	"net"
	"net/http"
	"sync/atomic"
)

// Created is Memory's response, over a socket.
var Created = respond(http.StatusCreated)

// FlakyHandler is Flaky's behaviour, over a socket. Its handler serves one caller at a time.
func FlakyHandler() http.Handler {
	unavailable := respond(http.StatusServiceUnavailable)
	var requests atomic.Int64
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if requests.Add(1)%2 == 1 {
			unavailable(w, r)
			return
		}
		Created(w, r)
	})
}

// respond returns a handler that reads each request to its end and responds with status.
func respond(status int) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if drain(r.Body) != nil {
			return
		}
		w.Header()["Content-Type"] = ContentType
		w.WriteHeader(status)
		_, _ = w.Write(ResponseBody) // a client that is gone reports it
	}
}

// Listen starts a server with the handler on a free port of loopback. stop closes it.
func Listen(handler http.Handler) (url string, stop func() error, err error) {
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
