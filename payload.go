package redo

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
)

// A payload gives each attempt its own reader of the request's body.
type payload struct {
	bytes []byte        // the whole body, if held
	held  bool          // bytes is the body; the request's own is closed
	rest  io.ReadCloser // the whole body, if buffer read the head of one that is too long
	used  bool          // an attempt has the request's own body, and closes it
}

// empty reports whether the request has no body.
func (p *payload) empty(r *http.Request) bool {
	return !p.held && (r.Body == nil || r.Body == http.NoBody)
}

// replayable reports whether the body can be sent more than once.
func (p *payload) replayable(r *http.Request) bool {
	return p.held || p.empty(r) || r.GetBody != nil
}

// buffer reads a body that has no GetBody into memory, if it has at most limit bytes.
func (p *payload) buffer(r *http.Request, limit int) error {
	if p.replayable(r) {
		return nil
	}
	head, err := io.ReadAll(io.LimitReader(r.Body, int64(limit)+1))
	switch {
	case err != nil:
		return fmt.Errorf("redo: reading the request's body: %w", err)
	case len(head) > limit:
		p.rest = rejoin(head, r.Body)
		return nil
	}
	p.hold(head)
	closeBody(r)
	return nil
}

// hold replaces the request's body with b.
func (p *payload) hold(b []byte) { p.bytes, p.held = b, true }

// next returns the body of the next attempt. The first attempt gets the request's own, so that nothing is copied.
func (p *payload) next(r *http.Request) (io.ReadCloser, error) {
	switch {
	case p.held && len(p.bytes) == 0:
		return http.NoBody, nil
	case p.held:
		return io.NopCloser(bytes.NewReader(p.bytes)), nil
	case p.empty(r):
		return r.Body, nil
	case !p.used:
		p.used = true
		if p.rest != nil {
			return p.rest, nil
		}
		return r.Body, nil
	case r.GetBody == nil:
		return nil, ErrNotReplayable
	}
	return r.GetBody()
}

// attach gives an attempt's request its body. GetBody stays set, since net/http uses it when it resends the request
// on a new connection.
func (p *payload) attach(out, req *http.Request) (err error) {
	if out.Body, err = p.next(req); err != nil {
		return err
	}
	out.GetBody, out.ContentLength = req.GetBody, req.ContentLength
	if p.held {
		held := payload{bytes: p.bytes, held: true}
		out.GetBody = func() (io.ReadCloser, error) { return held.next(req) }
		out.ContentLength, out.TransferEncoding = int64(len(p.bytes)), nil
	}
	return nil
}

// close closes the request's own body, unless an attempt or hold took it over.
func (p *payload) close(r *http.Request) {
	if !p.used && !p.held {
		closeBody(r)
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

// errorBody returns a body that reads head and then fails with err. It ends with io.EOF if err is nil or io.EOF.
func errorBody(head []byte, err error) io.ReadCloser {
	if err == nil || errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return io.NopCloser(bytes.NewReader(head))
	}
	return io.NopCloser(io.MultiReader(bytes.NewReader(head), failingReader{err}))
}

type failingReader struct{ err error }

func (f failingReader) Read([]byte) (int, error) { return 0, f.err }
