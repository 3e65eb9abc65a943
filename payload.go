package redo

import (
	"bytes"
	"io"
	"net/http"
)

// A payload gives each attempt its own reader over the request's body.
type payload struct {
	bytes []byte // the whole body, when it had to be read for the store
	read  bool   // bytes is set, and the request's own body is closed
	used  bool   // the request's own body was handed to an attempt, which closes it
}

func (p *payload) empty(r *http.Request) bool { return r.Body == nil || r.Body == http.NoBody }

func (p *payload) replayable(r *http.Request) bool { return p.empty(r) || p.read || r.GetBody != nil }

// next returns the body for the next attempt. The first gets the request's own, so that nothing is copied.
func (p *payload) next(r *http.Request) (io.ReadCloser, error) {
	switch {
	case p.empty(r):
		return r.Body, nil
	case p.read && len(p.bytes) == 0:
		return http.NoBody, nil
	case p.read:
		return io.NopCloser(bytes.NewReader(p.bytes)), nil
	case !p.used:
		p.used = true
		return r.Body, nil
	case r.GetBody == nil:
		return nil, ErrNotReplayable
	}
	return r.GetBody()
}

// close closes the request's own body if no attempt was given it.
func (p *payload) close(r *http.Request) {
	if !p.used && !p.read {
		closeBody(r)
	}
}

func closeBody(req *http.Request) {
	if req != nil && req.Body != nil {
		_ = req.Body.Close()
	}
}
