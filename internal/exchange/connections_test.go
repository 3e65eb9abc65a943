package exchange

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// net/http sends a request again at once and without a limit if an HTTP/2 server refuses it on each new connection
// (golang/go#52459). One call made thousands of connections in a second.
func TestARequestThatIsRefusedOnEachConnectionIsSentWithPauses(t *testing.T) {
	t.Setenv("GODEBUG", "http2client=1,http2server=1") // the environment may switch HTTP/2 off
	for name, refusal := range map[string][]byte{
		"GOAWAY":                {0, 0, 8, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0},
		"reset, PROTOCOL_ERROR": {0, 0, 4, 3, 0, 0, 0, 0, 1, 0, 0, 0, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				plain := &http.Protocols{}
				plain.SetUnencryptedHTTP2(true)
				dialed := 0
				tr := &http.Transport{
					Protocols: plain,
					DialContext: func(context.Context, string, string) (net.Conn, error) {
						if dialed++; dialed == 1000 {
							return nil, errors.New("no time passes")
						}
						ours, theirs := net.Pipe()
						context.AfterFunc(t.Context(), func() { _ = theirs.Close() })
						go refuseStream(theirs, refusal)
						return ours, nil
					},
				}
				began := time.Now()
				x, r := start(t, http.MethodPost, tr, 10*time.Second)
				r.URL.Scheme = "http"
				_, err := x.Send(r)
				require.Error(t, x.Fail(nil, err))
				require.LessOrEqual(t, x.Sends(), 17)
				require.LessOrEqual(t, time.Since(began), 10*time.Second, "a pause ends with the attempt")
			})
		})
	}
}

// refuseStream sends the refusal after the head of the first request.
func refuseStream(conn net.Conn, refusal []byte) {
	defer func() { _ = conn.Close() }()
	out := make(chan []byte, 2) // a pipe has no buffer, so a write must not wait for a read
	defer close(out)
	go func() {
		for b := range out {
			_, _ = conn.Write(b)
		}
	}()
	out <- []byte{0, 0, 0, 4, 0, 0, 0, 0, 0} // SETTINGS
	head := make([]byte, len("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"))
	_, err := io.ReadFull(conn, head)
	for err == nil {
		if _, err = io.ReadFull(conn, head[:9]); err == nil {
			_, err = io.CopyN(io.Discard, conn, int64(binary.BigEndian.Uint32(head)>>8))
		}
		if err == nil && head[3] == 1 { // HEADERS
			out <- refusal
		}
	}
}
