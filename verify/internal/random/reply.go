package random

import (
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"syscall"

	"github.com/redo-go/redo/taxonomy"
)

// Errors of the connection to a server.
var (
	ErrRefused = &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	ErrReset   = &net.OpError{Op: "read", Net: "tcp", Err: syscall.ECONNRESET}
	ErrDead    = errors.New("the process was killed")
)

// A Reply is a server's response on its way to the client.
type Reply struct {
	Status   int
	Code     taxonomy.Code // Error-Code
	After    int           // Retry-After, in seconds
	Stored   bool          // marked as the outcome for the key
	Replayed bool          // marked as its repetition
	Body     string
}

// Response builds the response as a transport returns it.
func (r Reply) Response(req *http.Request) *http.Response {
	h := http.Header{"Content-Type": {"text/plain"}}
	if r.Stored {
		h.Set("Idempotency-Status", "stored")
	}
	if r.Replayed {
		h.Set("Idempotency-Status", "replayed")
	}
	if r.Code != "" {
		h.Set("Error-Code", string(r.Code))
	}
	if r.After > 0 {
		h.Set("Retry-After", strconv.Itoa(r.After))
	}
	return &http.Response{
		Status: http.StatusText(r.Status), StatusCode: r.Status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: h, Body: io.NopCloser(strings.NewReader(r.Body)), ContentLength: int64(len(r.Body)), Request: req,
	}
}
