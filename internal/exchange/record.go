package exchange

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/redo-go/redo/internal/wire"
)

// Record returns a body for resp that keeps the bytes that the caller reads, up to limit bytes. It calls end once, when
// the caller has read the body to its end or closes it. whole is false if body is not the whole body. An error of end
// is returned by the Read or the Close that called it.
//
// The response of an RPC may hold a failure although its HTTP status is 200. If the status of the call is not that of
// a success, or was not read, Record does not call end: the response shows no effect then. Close reads on for up to a
// second to find it. A response of gRPC is not whole without its trailers, which are not kept.
func Record(resp *http.Response, limit int, end func(body []byte, whole bool) error) io.ReadCloser {
	return &recording{ReadCloser: resp.Body, rpc: wire.RPCOf(resp), limit: limit, end: end, whole: true}
}

// closePatience bounds the time for which Close reads on.
const closePatience = time.Second

type recording struct {
	io.ReadCloser
	rpc   *wire.RPC // nil for another protocol
	limit int
	end   func([]byte, bool) error // nil once it was called
	head  []byte
	whole bool // head is all that was read
}

func (r *recording) Read(p []byte) (int, error) {
	n, err := r.ReadCloser.Read(p)
	if r.rpc != nil {
		_, _ = r.rpc.Write(p[:n])
	}
	if r.whole && len(r.head)+n <= r.limit {
		r.head = append(r.head, p[:n]...)
	} else {
		r.head, r.whole = nil, false
	}
	if err != nil {
		if ended := r.finish(err == io.EOF); ended != nil { //nolint:errorlint // a body's end is the bare io.EOF
			err = ended
		}
	}
	return n, err
}

func (r *recording) Close() error {
	read := r.readOn()
	closed := r.ReadCloser.Close()
	return cmp.Or(r.finish(false), read, closed)
}

// readOn reads the rest of an RPC whose caller closes it before its status was read, as the caller of a resumed
// operation may do. It returns an error if the call did not succeed.
func (r *recording) readOn() error {
	if r.end == nil || r.rpc == nil || r.rpc.Ended() {
		return nil
	}
	timer := time.AfterFunc(closePatience, func() { _ = r.ReadCloser.Close() })
	defer timer.Stop()
	_, err := io.Copy(io.Discard, r)
	switch status := r.rpc.Status(); status {
	case "0":
		return err
	case "":
		return errors.New("redo: the body was closed before the status of the call: the operation stays pending")
	default:
		return fmt.Errorf("redo: the call failed with the status %q: the operation stays pending", status)
	}
}

// finish calls end, unless it was called before or an RPC did not succeed.
func (r *recording) finish(whole bool) error {
	end := r.end
	if end == nil {
		return nil
	}
	r.end = nil
	if r.rpc != nil {
		if r.rpc.Status() != "0" {
			return nil
		}
		whole = r.rpc.Ended() // a caller may close the body without a read of its end
	}
	if r.whole = r.whole && whole; !r.whole {
		r.head = nil
	}
	return end(r.head, r.whole)
}
