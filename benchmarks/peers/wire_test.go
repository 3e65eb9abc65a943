package main

import (
	"io"
	"net"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWireReadsAResponse(t *testing.T) {
	const created = "HTTP/1.1 201 Created\r\n"
	for _, c := range []struct {
		rule, sent string
		want       response
		fails      bool
	}{
		{"a body", created + "content-length: 2\r\n\r\nok", response{status: 201, body: "ok"}, false},
		{"a marked replay", created + "Content-Length: 0\r\nIdempotency-Status: replayed\r\n\r\n",
			response{status: 201, replayed: true}, false},
		{"a first run is no replay", created + "Content-Length: 0\r\nIdempotency-Status: stored\r\n\r\n",
			response{status: 201}, false},
		{"no length", created + "\r\n", response{}, true},
		{"a length that is no number", created + "Content-Length: x\r\n\r\n", response{}, true},
		{"a status that is no number", "HTTP/1.1 abc\r\nContent-Length: 0\r\n\r\n", response{}, true},
		{"a short status line", "HTTP\r\n", response{}, true},
		{"a connection that ends", created + "Content-Length: 3\r\n\r\nok", response{}, true},
	} {
		t.Run(c.rule, func(t *testing.T) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			require.NoError(t, err)
			ended := make(chan error, 1)
			go func() {
				conn, err := l.Accept()
				if err == nil {
					_, err = io.WriteString(conn, c.sent)
					_ = conn.Close()
				}
				ended <- err
			}()
			w, err := dial(l.Addr().String(), routeA, nil)
			require.NoError(t, err)
			got, err := w.receive()
			require.Equal(t, c.fails, err != nil)
			if err == nil {
				require.Equal(t, c.want, got)
			}
			require.NoError(t, <-ended)
			require.NoError(t, w.close())
			require.NoError(t, l.Close())
		})
	}
}

func TestWireSendsARequestThatServersRead(t *testing.T) {
	var keys []string
	running, err := service{serve: func(l net.Listener, _ func()) func() error {
		s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			keys = append(keys, r.Header.Get("Idempotency-Key")) // one request at a time
			_, _ = w.Write(body)
		})}
		served := make(chan error, 1)
		go func() { served <- s.Serve(l) }()
		return func() error {
			err := s.Close()
			<-served
			return err
		}
	}}.start(nil)
	require.NoError(t, err)
	w, err := dial(running.addr, routeA, []byte("payload"))
	require.NoError(t, err)
	for _, key := range []int64{7, 1234567890123} {
		got, err := w.post(key)
		require.NoError(t, err)
		require.Equal(t, response{status: 200, body: "payload"}, got)
	}
	require.NoError(t, w.close())
	require.NoError(t, running.stop())
	require.Equal(t, []string{"5f0e8a6b-7b1e-4c3a-9d42-000000000007", "5f0e8a6b-7b1e-4c3a-9d42-234567890123"}, keys,
		"a key has the form of a UUIDv4")
}
