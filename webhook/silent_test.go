package webhook_test

import (
	"context"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// A pipes is a listener whose connections are pipes.
type pipes struct {
	accept chan net.Conn
	dialed atomic.Int32
	dead   atomic.Bool // the first connection loses what is written to it
}

func (p *pipes) Accept() (net.Conn, error) {
	c, open := <-p.accept
	if !open {
		return nil, net.ErrClosed
	}
	return c, nil
}

func (p *pipes) Close() error { close(p.accept); return nil }

func (p *pipes) Addr() net.Addr { return &net.TCPAddr{} }

func (p *pipes) dial(context.Context, string, string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	p.accept <- theirs
	if p.dialed.Add(1) == 1 {
		return &mortal{ours, &p.dead}, nil
	}
	return ours, nil
}

// A mortal connection loses what is written to it once it is dead, without an error.
type mortal struct {
	net.Conn
	dead *atomic.Bool
}

func (m *mortal) Write(b []byte) (int, error) {
	if m.dead.Load() {
		return len(b), nil
	}
	return m.Conn.Write(b)
}

// All deliveries to a consumer share one HTTP/2 connection. A timeout of a delivery does not close it.
func TestAnHTTP2ConnectionThatDiesSilentlyIsReplaced(t *testing.T) {
	t.Setenv("GODEBUG", "http2client=1,http2server=1") // the environment may switch HTTP/2 off
	synctest.Test(t, func(t *testing.T) {
		plain := &http.Protocols{}
		plain.SetUnencryptedHTTP2(true)
		network := &pipes{accept: make(chan net.Conn)}
		srv := &http.Server{Protocols: plain, Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})}
		go func() { _ = srv.Serve(network) }()
		tr := transport(t)
		tr.Protocols, tr.DialContext = plain, network.dial
		send := func() error {
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://consumer.test/", nil)
			require.NoError(t, err)
			resp, err := tr.RoundTrip(req)
			if err != nil {
				return err
			}
			require.Equal(t, 2, resp.ProtoMajor)
			return resp.Body.Close()
		}
		require.NoError(t, send())
		synctest.Wait() // the connection is idle
		network.dead.Store(true)
		require.Error(t, send())
		require.NoError(t, send())
		require.EqualValues(t, 2, network.dialed.Load())
		tr.CloseIdleConnections()
		require.NoError(t, srv.Close())
		synctest.Wait()
	})
}
