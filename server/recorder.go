package server

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/redo-go/redo/internal/wire"
)

// Shared values of headers. Their capacity is their length, so that an append copies them.
var (
	storedValues   = []string{wire.StatusStored}
	replayedValues = []string{wire.StatusReplayed}
	trueValues     = []string{"true"}
)

// selfCounted is the length of a body up to which net/http itself sets the Content-Length.
const selfCounted = 2048

// A recorder is the http.ResponseWriter that the handler writes to. It holds the response back until it is recorded,
// or until it grows beyond the limit of a stored response.
//
// It has no Unwrap method, because http.ResponseController would find the connection behind it and bypass the record.
// It passes on the deadlines, which are safe. Hijack is not possible.
type recorder struct {
	w      http.ResponseWriter
	limit  int
	header http.Header // that of w, because informational responses are sent with it
	before http.Header // a copy of it from before the handler ran

	mode      captureMode
	trace     timeoutTrace // of http.TimeoutHandler
	abandoned bool         // by the timeout of a framework
	status    int          // zero until the handler has written one
	head      snapshot     // the header at that moment
	body      []byte       // nil until the handler has written a byte

	// owner is called once, before the first byte beyond the limit, and returns the next mode.
	owner interface{ overflow() captureMode }
}

type captureMode uint8

const (
	holding    captureMode = iota // everything is held back
	passing                       // everything is sent without delay
	discarding                    // nothing is sent: the client got another response
)

func (o *recorder) init(w http.ResponseWriter, limit int, owner interface{ overflow() captureMode }) {
	o.w, o.limit, o.header, o.owner = w, limit, w.Header(), owner
	if len(o.header) > 0 {
		o.before = o.header.Clone()
	}
}

// Header implements http.ResponseWriter.
func (o *recorder) Header() http.Header { return o.header }

// WriteHeader implements http.ResponseWriter. Informational statuses are sent immediately and not recorded.
func (o *recorder) WriteHeader(status int) {
	if o.status != 0 {
		return // net/http too keeps the first
	}
	if status < 100 || status > 999 {
		// net/http panics here as well. The trace must contain the handler's own line, not the middleware's.
		panic(fmt.Sprintf("server: invalid WriteHeader code %d", status))
	}
	if status < 200 && status != http.StatusSwitchingProtocols {
		o.w.WriteHeader(status)
		return
	}
	o.status = status
	if o.mode == passing {
		o.w.WriteHeader(status)
		return
	}
	o.trace.status(status)
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

// begin returns nil if n more bytes may be written.
func (o *recorder) begin(n int) error {
	o.finish()
	if !bodyAllowed(o.status) {
		return http.ErrBodyNotAllowed
	}
	o.trace.write()
	if o.mode == holding && len(o.body)+n > o.limit {
		o.mode = o.owner.overflow()
	}
	if o.mode == discarding {
		return errDiscarded
	}
	return nil
}

// Flush implements http.Flusher. A response that is held back is not flushed.
func (o *recorder) Flush() { _ = o.FlushError() }

// FlushError is Flush for http.ResponseController.
func (o *recorder) FlushError() error {
	o.finish()
	if o.mode != passing {
		return nil
	}
	return http.NewResponseController(o.w).Flush()
}

// EnableFullDuplex is for http.ResponseController. It does nothing, because the handler reads the body from memory.
func (o *recorder) EnableFullDuplex() error { return nil }

// SetReadDeadline is for http.ResponseController.
func (o *recorder) SetReadDeadline(t time.Time) error {
	return http.NewResponseController(o.w).SetReadDeadline(t)
}

// SetWriteDeadline is for http.ResponseController.
func (o *recorder) SetWriteDeadline(t time.Time) error {
	return http.NewResponseController(o.w).SetWriteDeadline(t)
}

// finish sets the status 200, as net/http does, if the handler has set none.
func (o *recorder) finish() {
	o.WriteHeader(http.StatusOK)
}

// silent reports whether the handler has written nothing.
func (o *recorder) silent() bool { return o.status == 0 }

// Abandoned reports that the response is that of a timeout, which has left the handler running. An adapter whose
// framework has such a timeout finds this method by assertion.
func (o *recorder) Abandoned() { o.abandoned = true }

// abandonedInside reports whether a timeout wrote the response for a handler that it left running.
func (o *recorder) abandonedInside() bool { return o.abandoned || o.trace.inside && !o.trace.own }

// passOn drops the held response, and from now on passes on the writes of layers outside of the middleware. Some
// frameworks give them this recorder, for example to report a panic.
func (o *recorder) passOn() {
	if o.mode != holding {
		return
	}
	o.withdraw()
	o.mode, o.status, o.body = passing, 0, nil
}

// envelope returns the response as it is stored. It is a tombstone if the body has more than limit bytes, or if the
// header is over a limit of the envelope.
func (o *recorder) envelope(limit int, filter func(name string) bool) (result []byte, kept bool) {
	var few [len(o.head.fewFields)]wire.Field
	header := o.head.keep(few[:0], o.before, filter)
	if len(o.body) > limit || wire.CheckFields(o.status, header) != nil {
		return wire.AppendTombstone(nil, o.status), false
	}
	return wire.AppendFields(nil, o.status, header, o.body), true
}

// cut reports whether the body is shorter than the handler declared. net/http then breaks the connection off.
func (o *recorder) cut() bool {
	for _, f := range o.head.fields {
		if f.Name == "Content-Length" && len(f.Values) == 1 && bodyAllowed(o.status) {
			n, err := strconv.ParseInt(f.Values[0], 10, 64)
			return err == nil && n > int64(len(o.body))
		}
	}
	return false
}

// send sends the held response. Trailers that the handler set after the status are set again after the body. Other
// headers are not: an HTTP/3 server, or a layer outside that compresses, reads the header late and would send them.
func (o *recorder) send(stored, whole bool) {
	changed := o.head.restore(o.header)
	delete(o.header, wire.HeaderReplayed)
	delete(o.header, wire.HeaderStatus)
	if stored {
		o.header[wire.HeaderStatus] = storedValues
	}
	if whole && bodyAllowed(o.status) {
		setLength(o.header, changed, len(o.body))
	}
	o.w.WriteHeader(o.status)
	if o.body != nil {
		_, _ = o.w.Write(o.body) // a client that has gone can get the stored response
	}
	o.body = nil
	for name, list := range changed {
		if isTrailer(o.header, name) {
			o.header[name] = list
		}
	}
}

// withdraw removes the headers that the handler has set, before another response.
func (o *recorder) withdraw() {
	clear(o.header)
	for name, list := range o.before {
		o.header[name] = list
	}
}

// setLength sets the Content-Length of a body that net/http would send in chunks. It replaces a length that the
// handler has set. A response with trailers has none. The fields of later are set after the body.
func setLength(h, later http.Header, n int) {
	delete(h, "Content-Length")
	if n > selfCounted && !hasTrailers(h) && !hasTrailers(later) {
		h["Content-Length"] = []string{strconv.Itoa(n)}
	}
}

// hasTrailers reports whether a header announces trailers, or has some that net/http sends unannounced.
func hasTrailers(h http.Header) bool {
	if _, announced := h["Trailer"]; announced {
		return true
	}
	for name := range h {
		if strings.HasPrefix(name, http.TrailerPrefix) {
			return true
		}
	}
	return false
}

// isTrailer reports whether name is one of the trailers of a response with the header h.
func isTrailer(h http.Header, name string) bool {
	for _, line := range h["Trailer"] {
		for announced := range strings.SplitSeq(line, ",") {
			if strings.EqualFold(strings.TrimSpace(announced), name) {
				return true
			}
		}
	}
	return strings.HasPrefix(name, http.TrailerPrefix)
}

// errDiscarded is the error of a Write to a response that is not sent.
var errDiscarded = errors.New("server: the response was discarded: it could not be recorded")

// bodyAllowed follows RFC 9110 sections 6.4.1, 15.3.5 and 15.4.5.
func bodyAllowed(status int) bool {
	return status >= 200 && status != http.StatusNoContent && status != http.StatusNotModified
}
