package server

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/redo-go/redo/internal/wire"
)

// Shared values of headers. Nobody appends to them: their capacity is their length.
var (
	storedValues   = []string{wire.StatusStored}
	replayedValues = []string{wire.StatusReplayed}
	trueValues     = []string{"true"}
)

// selfCounted is the length up to which net/http finds the Content-Length by itself.
const selfCounted = 2048

// A recorder is the http.ResponseWriter that the handler writes to. It holds the response back until it is recorded, or
// until it grows beyond what is stored.
//
// It has no Unwrap method, because http.ResponseController would find the connection behind it and write past the
// record. The deadlines, which are safe, it passes on itself; there is no way to Hijack.
type recorder struct {
	w      http.ResponseWriter
	limit  int
	header http.Header // w's own: informational responses need it there
	before http.Header // what was in it before the handler ran

	mode   captureMode
	status int      // zero until the handler has written one
	head   snapshot // the header when it did: later changes are not part of it
	body   []byte   // nil until the handler has called Write

	// owner is asked once, before the first byte beyond the limit, how to go on.
	owner interface{ overflow() captureMode }
}

type captureMode uint8

const (
	holding    captureMode = iota // everything is kept back
	passing                       // the response was too large: it goes straight out
	discarding                    // it must not be seen: another answer was given in its place
)

func (o *recorder) init(w http.ResponseWriter, limit int, owner interface{ overflow() captureMode }) {
	o.w, o.limit, o.header, o.owner = w, limit, w.Header(), owner
	if len(o.header) > 0 {
		o.before = o.header.Clone()
	}
}

// Header implements http.ResponseWriter.
func (o *recorder) Header() http.Header { return o.header }

// WriteHeader implements http.ResponseWriter. Informational statuses go out at once and are not recorded.
func (o *recorder) WriteHeader(status int) {
	if o.status != 0 {
		return // net/http too keeps the first
	}
	if status < 100 || status > 999 {
		// net/http panics here as well: the handler's own line has to be in the trace, not the middleware's.
		panic(fmt.Sprintf("server: invalid WriteHeader code %d", status))
	}
	if status < 200 && status != http.StatusSwitchingProtocols {
		o.w.WriteHeader(status)
		return
	}
	o.status = status
	o.head.take(o.header)
}

// Write implements http.ResponseWriter.
func (o *recorder) Write(p []byte) (int, error) {
	if err := o.begin(len(p)); err != nil {
		return 0, err
	}
	if o.mode == passing {
		return o.w.Write(p)
	}
	o.body = append(o.body, p...)
	return len(p), nil
}

// WriteString implements io.StringWriter.
func (o *recorder) WriteString(s string) (int, error) {
	if err := o.begin(len(s)); err != nil {
		return 0, err
	}
	if o.mode == passing {
		return io.WriteString(o.w, s)
	}
	o.body = append(o.body, s...)
	return len(s), nil
}

// begin makes room for n more bytes.
func (o *recorder) begin(n int) error {
	if o.status == 0 {
		o.WriteHeader(http.StatusOK)
	}
	if !bodyAllowed(o.status) {
		return http.ErrBodyNotAllowed
	}
	if o.mode == holding && len(o.body)+n > o.limit {
		o.mode = o.owner.overflow()
	}
	if o.mode == discarding {
		return errDiscarded
	}
	if o.mode == holding && o.body == nil {
		o.body = make([]byte, 0, n)
	}
	return nil
}

// Flush implements http.Flusher. A response that is held back is not flushed.
func (o *recorder) Flush() { _ = o.FlushError() }

// FlushError is Flush for http.ResponseController.
func (o *recorder) FlushError() error {
	if o.status == 0 {
		o.WriteHeader(http.StatusOK)
	}
	if o.mode != passing {
		return nil
	}
	return http.NewResponseController(o.w).Flush()
}

// SetReadDeadline is for http.ResponseController.
func (o *recorder) SetReadDeadline(t time.Time) error {
	return http.NewResponseController(o.w).SetReadDeadline(t)
}

// SetWriteDeadline is for http.ResponseController.
func (o *recorder) SetWriteDeadline(t time.Time) error {
	return http.NewResponseController(o.w).SetWriteDeadline(t)
}

// finish gives a response that the handler has not begun the status that net/http would.
func (o *recorder) finish() {
	if o.status == 0 {
		o.WriteHeader(http.StatusOK)
	}
}

// silent reports whether the handler has returned without a response.
func (o *recorder) silent() bool { return o.status == 0 }

// envelope returns the response as it is stored, or the tombstone of one whose body has more than limit bytes, or whose
// header is beyond all limits.
func (o *recorder) envelope(limit int) (result []byte, kept bool) {
	var few [len(o.head.fewFields)]wire.Field
	header := o.head.keep(few[:0], o.before)
	if len(o.body) > limit || wire.CheckFields(o.status, header) != nil {
		return wire.AppendTombstone(nil, o.status), false
	}
	return wire.AppendFields(nil, o.status, header, o.body), true
}

// send writes out what was held back. Whatever the handler set in the header after it wrote the status comes back
// after the body: those are trailers.
func (o *recorder) send(stored, whole bool) {
	since := o.head.restore(o.header)
	delete(o.header, wire.HeaderReplayed)
	delete(o.header, wire.HeaderStatus)
	if stored {
		o.header[wire.HeaderStatus] = storedValues
	}
	if whole && bodyAllowed(o.status) {
		setLength(o.header, len(o.body))
	}
	o.w.WriteHeader(o.status)
	if o.body != nil {
		_, _ = o.w.Write(o.body) // a client that is gone comes back for the stored response
	}
	o.body = nil
	for name, list := range since {
		o.header[name] = list
	}
}

// withdraw takes back what the handler has set, to make way for another answer.
func (o *recorder) withdraw() {
	clear(o.header)
	for name, list := range o.before {
		o.header[name] = list
	}
}

// setLength states the length of a body that net/http would send in chunks. A length that the handler stated is not
// believed. With trailers there can be none.
func setLength(h http.Header, n int) {
	delete(h, "Content-Length")
	if _, trailers := h["Trailer"]; n > selfCounted && !trailers {
		h["Content-Length"] = []string{strconv.Itoa(n)}
	}
}

// errDiscarded is what the handler is told when it goes on writing a response that nobody will get.
var errDiscarded = errors.New("server: the response was discarded: it could not be recorded")

// bodyAllowed follows RFC 9110 sections 6.4.1, 15.3.5 and 15.4.5.
func bodyAllowed(status int) bool {
	return status >= 200 && status != http.StatusNoContent && status != http.StatusNotModified
}
