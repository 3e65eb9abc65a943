package wire

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"io"
	"net/http"
	"strings"
)

// An RPC finds the status of a call of gRPC, of gRPC-Web, or of a stream of Connect. The HTTP status of a failed call
// is 200 too. gRPC has its own status in the trailers. The others have it in the last message of the body:
// https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-WEB.md and https://connectrpc.com/docs/protocol
//
// Make it with [RPCOf]. One goroutine uses it.
type RPC struct {
	resp     *http.Response
	last     byte // the flag of the message with the status; 0 if the status is in the trailers
	parse    func(message []byte) (status string)
	encoding string // of a compressed message
	base64   bool   // the body is text
	text     []byte // the rest of the text that is not decoded yet: less than four characters
	head     []byte // of the message under way: a flag and four bytes of its length
	left     uint32 // bytes of the message to come
	message  []byte // the message with the status
	status   string // of that message; empty until it was read
}

const (
	rpcHead     = 5
	compressed  = 1 << 0
	endOfStream = 1 << 1 // of Connect
	webTrailers = 1 << 7 // of gRPC-Web
)

// RPCOf returns nil if resp belongs to another protocol, whose HTTP status is that of the call.
func RPCOf(resp *http.Response) *RPC {
	mediaType, r := mediaTypeOf(resp.Header), &RPC{resp: resp}
	switch {
	case isGRPC(mediaType):
	case strings.HasPrefix(mediaType, "application/grpc-web"):
		r.last, r.parse, r.encoding = webTrailers, trailersStatus, resp.Header.Get("Grpc-Encoding")
		r.base64 = strings.HasPrefix(mediaType, "application/grpc-web-text")
	case isRPCStream(mediaType):
		r.last, r.parse, r.encoding = endOfStream, endStatus, resp.Header.Get("Connect-Content-Encoding")
	default:
		return nil
	}
	return r
}

// Status returns the status of the call, "0" for a success. It is empty until the part of the body that holds it was
// written, or until the body of a call of gRPC was read to its end.
func (r *RPC) Status() string {
	if r.last == 0 {
		return cmp.Or(r.resp.Trailer.Get("Grpc-Status"), r.resp.Header.Get("Grpc-Status"))
	}
	return cmp.Or(r.status, r.resp.Header.Get("Grpc-Status")) // in the header if there is no message
}

// Ended reports whether the message with the status was read. The body is whole then. It is false for gRPC, whose
// trailers come after the body.
func (r *RPC) Ended() bool { return r.status != "" }

// Write takes the next bytes of the body. It returns no error.
func (r *RPC) Write(p []byte) (int, error) {
	if r.last != 0 {
		r.scan(p)
	}
	return len(p), nil
}

// scan reads the messages in p.
func (r *RPC) scan(p []byte) {
	if r.base64 {
		p = r.decode(p)
	}
	for len(p) > 0 {
		if n := min(rpcHead-len(r.head), len(p)); n > 0 {
			r.head, p = append(r.head, p[:n]...), p[n:]
			if len(r.head) < rpcHead {
				return
			}
			r.left, r.message = binary.BigEndian.Uint32(r.head[1:]), nil
		}
		n := int(min(int64(r.left), int64(len(p))))
		if r.head[0]&r.last != 0 && len(r.message) < mostRoom {
			r.message = append(r.message, p[:n]...)
		}
		r.left, p = r.left-uint32(n), p[n:]
		if r.left == 0 {
			if r.head[0]&r.last != 0 {
				r.status = r.read(r.message)
			}
			r.head = r.head[:0]
		}
	}
}

// read returns the status in the last message. It is empty if the message is longer than mostRoom, or can't be read.
func (r *RPC) read(message []byte) string {
	if r.head[0]&compressed != 0 {
		from, err := gzip.NewReader(bytes.NewReader(message))
		if r.encoding != "gzip" || err != nil {
			return ""
		}
		if message, err = io.ReadAll(io.LimitReader(from, mostRoom)); err != nil {
			return ""
		}
	}
	if len(message) >= mostRoom {
		return ""
	}
	return r.parse(message)
}

// decode returns the bytes of text. Each of its parts may be padded.
func (r *RPC) decode(text []byte) []byte {
	const quantum = 4
	r.text = append(r.text, text...)
	var b []byte
	for ; len(r.text) >= quantum; r.text = r.text[quantum:] {
		var err error
		if b, err = base64.StdEncoding.AppendDecode(b, r.text[:quantum]); err != nil {
			r.last = 0 // the body has no message with a status
			return nil
		}
	}
	return b
}

// trailersStatus returns the status in a header block of gRPC-Web.
func trailersStatus(message []byte) string {
	for line := range strings.Lines(string(message)) {
		if name, value, _ := strings.Cut(line, ":"); strings.EqualFold(name, "Grpc-Status") {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// endStatus returns the status in the end of a stream of Connect: "0", or the code of the error.
func endStatus(message []byte) string {
	var end struct {
		Error *struct {
			Code string `json:"code"`
		} `json:"error"`
	}
	switch err := json.Unmarshal(message, &end); {
	case err != nil:
		return ""
	case end.Error == nil:
		return "0"
	default:
		return cmp.Or(end.Error.Code, "unknown")
	}
}
