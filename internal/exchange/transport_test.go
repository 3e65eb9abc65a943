package exchange

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/url"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/taxonomy"
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

// A retry is of no use on the connection that lost the first attempt.
func TestAnHTTP2ConnectionThatDiesSilentlyIsReplaced(t *testing.T) {
	t.Setenv("GODEBUG", "http2client=1,http2server=1") // the environment may switch HTTP/2 off
	synctest.Test(t, func(t *testing.T) {
		plain := &http.Protocols{}
		plain.SetUnencryptedHTTP2(true)
		network := &pipes{accept: make(chan net.Conn)}
		srv := &http.Server{Protocols: plain, Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})}
		go func() { _ = srv.Serve(network) }()
		tr := OwnTransport(&http.Transport{Protocols: plain, DialContext: network.dial})
		send := func() error {
			ctx, cancel := context.WithTimeout(t.Context(), 6*time.Second)
			defer cancel()
			req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://bank.test/", nil)
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
		start := time.Now()
		for send() != nil {
			require.Less(t, time.Since(start), time.Minute)
		}
		require.LessOrEqual(t, time.Since(start), pingAfter+pingPatience+6*time.Second)
		require.EqualValues(t, 2, network.dialed.Load())
		tr.CloseIdleConnections()
		require.NoError(t, srv.Close())
		synctest.Wait()
	})
}

func TestOwnTransportKeepsWhatAProgramHasSet(t *testing.T) {
	errOwn := errors.New("the program's own")
	set := &http.Transport{
		HTTP2:                  &http.HTTP2Config{SendPingTimeout: time.Hour},
		OnProxyConnectResponse: func(context.Context, *url.URL, *http.Request, *http.Response) error { return errOwn },
	}
	own := OwnTransport(set)
	require.NotSame(t, set, own)
	require.Equal(t, set.HTTP2, own.HTTP2)
	require.Equal(t, errOwn, own.OnProxyConnectResponse(t.Context(), nil, nil, nil))
	require.Zero(t, set.MaxIdleConnsPerHost, "the program's transport is not changed")
}

// A proxy has no record of the key, so a code of its own proves nothing about the operation.
func TestARefusedTunnelHasTheCodeOfItsStatusAlone(t *testing.T) {
	for _, said := range []string{"", "PROVIDER.duplicate", "CONFLICT.idempotency.expired"} {
		for status, want := range map[int]error{200: nil, 407: taxonomy.ProxyAuth, 502: taxonomy.Unavailable} {
			resp := &http.Response{StatusCode: status, Header: http.Header{"Error-Code": {said}}}
			require.ErrorIs(t, refusedTunnel(t.Context(), nil, nil, resp), want, "%d with %q", status, said)
		}
	}
}
