package exchange

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/redo-go/redo/internal/wire"
)

// ErrNotReplayable means that the request's body can't be read a second time.
var ErrNotReplayable = errors.New(
	"redo: the request body can't be replayed: set Request.GetBody, or raise WithMaxBufferedBody",
)

// A Body gives each attempt of a call its own reader of the request's body. Make it with [BodyOf]. One goroutine uses
// it.
type Body struct {
	req   *http.Request // the caller's; never changed
	bytes []byte        // the whole body, if held
	held  bool          // bytes is the body; the request's own is closed
	rest  io.ReadCloser // the whole body, if Buffer read the head of one that is too long
	used  bool          // an attempt has the request's own body, and closes it
	limit int           // that of Buffer, if the body is longer
	moved bool          // a reader of GetBody was read: it may share its position with the request's own body
}

// BodyOf returns the body of req, which may be nil.
func BodyOf(req *http.Request) Body { return Body{req: req} }

// Bytes returns the whole body if it is held in memory, and otherwise nil.
func (b *Body) Bytes() []byte { return b.bytes }

// empty reports whether the request has no body.
func (b *Body) empty() bool {
	return !b.held && (b.req.Body == nil || b.req.Body == http.NoBody)
}

// Replayable reports whether the body can be sent more than once.
func (b *Body) Replayable() bool {
	return b.held || b.empty() || b.req.GetBody != nil
}

// CheckReplayable returns nil if the body can be sent more than once. Otherwise the error wraps ErrNotReplayable. It
// names the limit that the body passes, and the body's size if the request declares it.
func (b *Body) CheckReplayable() error {
	switch n := b.req.ContentLength; {
	case b.Replayable():
		return nil
	case b.rest == nil:
		return ErrNotReplayable
	case n > int64(b.limit):
		return fmt.Errorf("%w: it has %d bytes, and the limit is %d", ErrNotReplayable, n, b.limit)
	default:
		return fmt.Errorf("%w: it has more than the limit of %d bytes", ErrNotReplayable, b.limit)
	}
}

// Buffer reads a body that has no GetBody into memory, if it has at most limit bytes. It returns early when the
// caller's context ends.
func (b *Body) Buffer(limit int) error {
	if b.Replayable() {
		return nil
	}
	head, err := b.head(limit + 1)
	switch {
	case err != nil:
		return fmt.Errorf("redo: reading the request's body: %w", err)
	case len(head) > limit:
		b.rest, b.limit = rejoin(head, b.req.Body), limit
		return nil
	}
	return b.hold(head)
}

// head reads up to limit bytes of the request's body. If the caller's context ends first, head returns, and closes the
// body. The goroutine that reads ends when the read does.
func (b *Body) head(limit int) ([]byte, error) {
	type result struct {
		head []byte
		err  error
	}
	req, read := b.req, make(chan result, 1)
	go func() {
		head, err := wire.ReadHead(req.Body, req.ContentLength, limit)
		read <- result{head, err}
	}()
	select {
	case r := <-read:
		return r.head, r.err
	case <-req.Context().Done():
	case <-req.Cancel: //nolint:staticcheck // an http.Client above with a Timeout closes it
	}
	b.used = true
	go closeBody(req) // the body of a server's request holds Close back until the read ends
	return nil, Ended(req)
}

// hold holds p, which was read from the request's body to its end. A body that is shorter or longer than the request
// declares is an error, as in net/http: half of a file must not become a whole request.
func (b *Body) hold(p []byte) error {
	if n := b.req.ContentLength; n > 0 && n != int64(len(p)) {
		return fmt.Errorf("redo: the request declares a body of %d bytes, it has %d", n, len(p))
	}
	b.Replace(p)
	return nil
}

// Replace closes the request's body, and sends p instead.
func (b *Body) Replace(p []byte) {
	closeBody(b.req)
	b.bytes, b.held = p, true
}

// Open returns a reader of the body, for a fingerprint. The body stays unread for the attempts. If it has at most limit
// bytes, Open holds it in memory, and whole is true. A body that is not replayable is an error.
func (b *Body) Open(limit int) (r io.ReadCloser, whole bool, err error) {
	switch {
	case b.empty():
		return http.NoBody, true, nil
	case !b.held && b.req.GetBody == nil:
		return nil, false, b.CheckReplayable()
	case !b.held:
		from, err := b.req.GetBody()
		if err != nil {
			return nil, false, err
		}
		head, err := wire.ReadHead(from, b.req.ContentLength, limit+1)
		if err != nil {
			_ = from.Close()
			return nil, false, err
		}
		if len(head) > limit {
			b.moved = true
			return rejoin(head, from), false, nil // read on, and not held
		}
		_ = from.Close()
		if err := b.hold(head); err != nil {
			return nil, false, err
		}
	}
	return io.NopCloser(bytes.NewReader(b.bytes)), len(b.bytes) <= limit, nil
}

// Attach gives an attempt's request its body. out is a copy of the call's request. GetBody stays set, since net/http
// uses it when it resends the request on a new connection.
func (b *Body) Attach(out *http.Request) (err error) {
	if out.Body, err = b.next(); err != nil {
		return err
	}
	if b.held {
		held := Body{req: b.req, bytes: b.bytes, held: true}
		out.GetBody = held.next
		out.ContentLength, out.TransferEncoding = int64(len(b.bytes)), nil
		if len(b.req.Trailer) > 0 {
			out.ContentLength = -1 // trailers follow a chunked body only
		}
	}
	return nil
}

// next returns the body of the next attempt. The first attempt gets the request's own, so that nothing is copied. If a
// long body was read for its fingerprint, the first attempt too gets one of GetBody. Some functions GetBody, such as
// azcore's, seek in the request's own body.
func (b *Body) next() (io.ReadCloser, error) {
	switch {
	case b.held && len(b.bytes) == 0:
		return http.NoBody, nil
	case b.held:
		return io.NopCloser(bytes.NewReader(b.bytes)), nil
	case b.empty():
		return b.req.Body, nil
	case !b.used && !b.moved:
		b.used = true
		if b.rest != nil {
			return b.rest, nil
		}
		return b.req.Body, nil
	case b.req.GetBody == nil:
		return nil, b.CheckReplayable()
	}
	return b.req.GetBody()
}

// Close closes the request's own body, unless an attempt or Replace took it over.
func (b *Body) Close() {
	if !b.used && !b.held {
		closeBody(b.req)
	}
}

func closeBody(req *http.Request) {
	if req != nil && req.Body != nil {
		_ = req.Body.Close()
	}
}

// rejoin returns a body that reads head and then rest. Its Close closes rest.
func rejoin(head []byte, rest io.ReadCloser) io.ReadCloser {
	return struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(head), rest), rest}
}

// ErrorBody returns a body that reads head and then fails with err. It ends with io.EOF if err is nil or io.EOF.
func ErrorBody(head []byte, err error) io.ReadCloser {
	if err == nil || errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return io.NopCloser(bytes.NewReader(head))
	}
	return io.NopCloser(io.MultiReader(bytes.NewReader(head), failingReader{err}))
}

type failingReader struct{ err error }

func (f failingReader) Read([]byte) (int, error) { return 0, f.err }
