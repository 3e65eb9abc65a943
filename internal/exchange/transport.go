package exchange

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/redo-go/redo/taxonomy"
)

// OwnTransport returns a copy of t for a client's own use.
func OwnTransport(t *http.Transport) *http.Transport {
	t = t.Clone()
	t.MaxIdleConnsPerHost = 64 // the default of 2 makes a client of one provider reconnect all the time
	if t.OnProxyConnectResponse == nil {
		t.OnProxyConnectResponse = refusedTunnel
	}
	if t.HTTP2 == nil {
		// All requests share one HTTP/2 connection, and a request that times out does not close it. Without a ping a
		// connection that died silently takes every retry, until the system gives it up after some 15 minutes.
		t.HTTP2 = &http.HTTP2Config{SendPingTimeout: pingAfter, PingTimeout: pingPatience}
	}
	return t
}

// The client sends a ping after pingAfter without a frame. It closes the connection after pingPatience more.
const (
	pingAfter    = 10 * time.Second
	pingPatience = 5 * time.Second
)

// refusedTunnel returns the error of a proxy's response to CONNECT, or nil for a success. The error of net/http is only
// the text of the status. Without a code, wrong credentials would be tried again like a failed connection.
func refusedTunnel(_ context.Context, _ *url.URL, _ *http.Request, resp *http.Response) error {
	// The header does not count: a proxy does not know the operation's key.
	code := taxonomy.Classify(taxonomy.Answer{Status: resp.StatusCode}).Code
	if code == "" {
		return nil // net/http refuses any status but 200
	}
	return fmt.Errorf("redo: the proxy refused the connection with status %d: %w", resp.StatusCode, code)
}
