package taxonomy

import (
	"context"
	"encoding/binary"
	"io"
	"log"
	"net"
	"net/http"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

var discardLog = log.New(io.Discard, "", 0)

// Frame types of RFC 9113, section 6.
const (
	frameData      = 0x0
	frameHeaders   = 0x1
	frameRstStream = 0x3
	frameSettings  = 0x4
	frameGoAway    = 0x7

	flagAck       = 0x1
	flagEndStream = 0x1
)

func frame(kind, flags byte, stream uint32, payload ...byte) []byte {
	f := binary.BigEndian.AppendUint32(nil, uint32(len(payload))<<8|uint32(kind))
	f = append(f, flags)
	f = binary.BigEndian.AppendUint32(f, stream)
	return append(f, payload...)
}

func words(ws ...uint32) []byte {
	var b []byte
	for _, w := range ws {
		b = binary.BigEndian.AppendUint32(b, w)
	}
	return b
}

// http2Peer returns a transport to a peer that responds to each whole request with the frames of answer, and then
// closes the connection if hangUp is set.
func http2Peer(hangUp bool, answer func(stream uint32) [][]byte) *http.Transport {
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	return &http.Transport{
		Protocols: protocols,
		DialContext: func(context.Context, string, string) (net.Conn, error) {
			client, server := net.Pipe()
			go servePeer(server, hangUp, answer)
			return client, nil
		},
	}
}

func servePeer(conn net.Conn, hangUp bool, answer func(stream uint32) [][]byte) {
	// A pipe has no buffer, so a write must not wait for a read.
	out := make(chan []byte, 64)
	written := make(chan struct{})
	go func() {
		defer close(written)
		for f := range out {
			if _, err := conn.Write(f); err != nil {
				return
			}
		}
	}()
	out <- frame(frameSettings, 0, 0)
	head := make([]byte, len("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"))
	_, err := io.ReadFull(conn, head)
	answered, acknowledged := false, false
	// A hang-up waits for the acknowledgement of the settings. It is the client's last write, and a failed write
	// would hide the tested error.
	for err == nil && !(hangUp && answered && acknowledged) {
		if _, err = io.ReadFull(conn, head[:9]); err != nil {
			break
		}
		length := binary.BigEndian.Uint32(head) >> 8
		kind, flags, stream := head[3], head[4], binary.BigEndian.Uint32(head[5:9])
		if _, err = io.CopyN(io.Discard, conn, int64(length)); err != nil {
			break
		}
		switch {
		case kind == frameSettings && flags&flagAck != 0:
			acknowledged = true
		case kind == frameData && flags&flagEndStream != 0:
			answered = true
			for _, f := range answer(stream) {
				out <- f
			}
		}
	}
	close(out)
	if err == nil {
		<-written
	}
	_ = conn.Close()
	<-written
}

func TestHTTP2ErrorsThatNetHTTPReallyMakes(t *testing.T) {
	t.Setenv("GODEBUG", "http2client=1,http2server=1") // the environment may switch HTTP/2 off
	const (
		endHeaders = 0x4
		status200  = 0x88 // HPACK: the static table's ":status: 200"
	)
	cases := []struct {
		name   string
		hangUp bool
		answer func(stream uint32) [][]byte
		want   Verdict
	}{
		{"REFUSED_STREAM did no work", false, func(s uint32) [][]byte {
			return [][]byte{frame(frameRstStream, 0, s, words(refusedStream)...)}
		}, Verdict{Code: RefusedStream, Class: ClassTransient, Effect: NotApplied}},

		{"REFUSED_STREAM after a response had begun proves nothing", false, func(s uint32) [][]byte {
			return [][]byte{
				frame(frameHeaders, endHeaders, s, status200), frame(frameRstStream, 0, s, words(refusedStream)...),
			}
		}, Verdict{Code: RefusedStream, Class: ClassTransient, Effect: EffectUnknown}},

		{"INTERNAL_ERROR leaves the effect unknown", false, func(s uint32) [][]byte {
			return [][]byte{frame(frameRstStream, 0, s, words(2)...)}
		}, Verdict{Code: Reset, Class: ClassTransient, Effect: EffectUnknown}},

		{"GOAWAY that includes the stream leaves the effect unknown", true, func(s uint32) [][]byte {
			return [][]byte{frame(frameGoAway, 0, 0, words(s, 0)...)}
		}, Verdict{Code: GoAway, Class: ClassTransient, Effect: EffectUnknown}},

		{"GOAWAY that net/http reports as text only stays unknown", false, func(s uint32) [][]byte {
			return [][]byte{frame(frameGoAway, 0, 0, words(0, 2)...)}
		}, Verdict{Code: Connection, Class: ClassTransient, Effect: EffectUnknown}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			// net/http repeats a refused stream after pauses, so time is virtual.
			synctest.Test(t, func(t *testing.T) {
				tr := http2Peer(c.hangUp, c.answer)
				a := attempt(t, tr, t.Context(), "http://api.test/")
				tr.CloseIdleConnections()
				require.Error(t, a.Err)
				require.True(t, a.Sent)
				require.Equal(t, c.want, Classify(a), "%v", a.Err)
			})
		})
	}
}

func TestHTTP2ErrorsOfAnotherTransport(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		want Code
		ok   bool
	}{
		"a refused stream":         {streamError{Code: refusedStream}, RefusedStream, true},
		"another reset":            {streamError{Code: 8}, Reset, true},
		"a goaway":                 {goAwayError{}, GoAway, true},
		"fields of other kinds":    {strangeStreamError{}, "", false},
		"fields of other names":    {otherStreamError{}, "", false},
		"a struct of fewer fields": {smallError{}, "", false},
		"no error":                 {nil, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			code, ok := http2Code(c.err)
			require.Equal(t, c.ok, ok)
			if ok {
				require.Equal(t, c.want, code)
			}
		})
	}
}

type strangeStreamError struct {
	StreamID string
	Code     string
	Cause    string
}

func (strangeStreamError) Error() string { return "strange" }

type otherStreamError struct {
	Stream uint32
	Number uint32
	Cause  error
}

func (otherStreamError) Error() string { return "other" }

type smallError struct{ StreamID uint32 }

func (smallError) Error() string { return "small" }
