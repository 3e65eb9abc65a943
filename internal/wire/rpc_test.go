package wire

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/binary"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// framed returns a message of gRPC or Connect in its frame.
func framed(flags byte, message string) string {
	head := binary.BigEndian.AppendUint32([]byte{flags}, uint32(len(message)))
	return string(head) + message
}

func gzipped(t *testing.T, s string) string {
	var b bytes.Buffer
	to := gzip.NewWriter(&b)
	_, err := to.Write([]byte(s))
	require.NoError(t, err)
	require.NoError(t, to.Close())
	return b.String()
}

func encoded(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }

func TestRPCOf(t *testing.T) {
	for contentType, want := range map[string]bool{
		"application/grpc": true, "application/grpc+proto; x=y": true, "Application/gRPC-Web+proto": true,
		"application/grpc-web-text": true, "application/connect+json": true,
		"": false, "application/proto": false, "application/json": false,
	} {
		resp := &http.Response{Header: http.Header{"Content-Type": {contentType}}}
		require.Equal(t, want, RPCOf(resp) != nil, contentType)
	}
}

func TestRPCStatus(t *testing.T) {
	const web, text, stream = "application/grpc-web+proto", "application/grpc-web-text", "application/connect+proto"
	const success, failure = "grpc-status: 0\r\ngrpc-message: \r\n", "grpc-message: x\r\nGRPC-Status:14\r\n"
	long := strings.Repeat(" ", mostRoom)
	for name, c := range map[string]struct {
		contentType, body string
		header, trailer   http.Header
		status            string
		ended             bool
	}{
		"gRPC, in the trailers":          {"application/grpc", "", nil, http.Header{"Grpc-Status": {"0"}}, "0", false},
		"gRPC, in the header":            {"application/grpc", "", http.Header{"Grpc-Status": {"14"}}, nil, "14", false},
		"gRPC, not read yet":             {"application/grpc", "", nil, http.Header{"Grpc-Status": nil}, "", false},
		"gRPC has no status in its body": {"application/grpc", framed(webTrailers, success), nil, nil, "", false},

		"gRPC-Web":                   {web, framed(0, "message") + framed(webTrailers, success), nil, nil, "0", true},
		"gRPC-Web, an empty message": {web, framed(0, "") + framed(webTrailers, success), nil, nil, "0", true},
		"gRPC-Web, a failure after a message": {web, framed(0, "m") + framed(webTrailers, failure), nil, nil,
			"14", true},
		"gRPC-Web, in the header": {web, "", http.Header{"Grpc-Status": {"9"}}, nil, "9", false},
		"gRPC-Web that breaks off": {web, framed(0, "m") + framed(webTrailers, success)[:9], nil, nil,
			"", false},
		"gRPC-Web without a status":       {web, framed(webTrailers, "x: y\r\n"), nil, nil, "", false},
		"a message that is like trailers": {web, framed(0, success), nil, nil, "", false},
		"compressed trailers": {web, framed(webTrailers|compressed, gzipped(t, success)),
			http.Header{"Grpc-Encoding": {"gzip"}}, nil, "0", true},
		"of an unknown encoding": {web, framed(webTrailers|compressed, gzipped(t, success)),
			http.Header{"Grpc-Encoding": {"zstd"}}, nil, "", false},
		"that are not compressed": {web, framed(webTrailers|compressed, success),
			http.Header{"Grpc-Encoding": {"gzip"}}, nil, "", false},
		"that are cut off": {web, framed(webTrailers|compressed, gzipped(t, success)[:20]),
			http.Header{"Grpc-Encoding": {"gzip"}}, nil, "", false},
		"trailers that are too long": {web, framed(webTrailers, success+long), nil, nil, "", false},
		"trailers that become too long": {web, framed(webTrailers|compressed, gzipped(t, success+long)),
			http.Header{"Grpc-Encoding": {"gzip"}}, nil, "", false},

		"text":          {text, encoded(framed(0, "m") + framed(webTrailers, success)), nil, nil, "0", true},
		"text in parts": {text, encoded(framed(0, "m")) + encoded(framed(webTrailers, failure)), nil, nil, "14", true},
		"text that is no": {text, encoded(framed(0, "mm")) + "?" + encoded(framed(webTrailers, success)), nil, nil,
			"", false},

		"Connect": {stream, framed(0, "message") + framed(endOfStream, "{}"), nil, nil, "0", true},
		"Connect, a failure": {stream, framed(endOfStream, `{"error":{"code":"unavailable"}}`), nil, nil,
			"unavailable", true},
		"Connect, a failure without a code": {stream, framed(endOfStream, `{"error":{}}`), nil, nil, "unknown", true},
		"Connect, an end that is no JSON":   {stream, framed(endOfStream, "{"), nil, nil, "", false},
		"Connect without an end":            {stream, framed(0, "{}"), nil, nil, "", false},
		"a compressed end": {stream, framed(compressed, "m") + framed(endOfStream|compressed, gzipped(t, `{"error":null}`)),
			http.Header{"Connect-Content-Encoding": {"gzip"}}, nil, "0", true},
	} {
		for _, step := range []int{1, 3, len(c.body) + 1} {
			resp := &http.Response{Header: c.header.Clone(), Trailer: c.trailer}
			if resp.Header == nil {
				resp.Header = http.Header{}
			}
			resp.Header.Set("Content-Type", c.contentType)
			r := RPCOf(resp)
			for rest := []byte(c.body); len(rest) > 0; {
				n := min(step, len(rest))
				written, err := r.Write(rest[:n])
				require.NoError(t, err)
				rest = rest[written:]
			}
			require.Equal(t, c.status, r.Status(), "%s, %d bytes at a time", name, step)
			require.Equal(t, c.ended, r.Ended(), name)
		}
	}
}
