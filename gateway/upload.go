package gateway

import (
	"bytes"
	"io"
	"net/http"

	"github.com/redo-go/redo"
	"github.com/redo-go/redo/internal/wire"
	"github.com/redo-go/redo/taxonomy"
)

// long reports whether the body has more than MaxBuffered bytes. It reads a body of unknown length up to there, and
// puts it back.
func (g *Gateway) long(r *http.Request) bool {
	if r.ContentLength >= 0 {
		return r.ContentLength > int64(g.maxBuffered)
	}
	head, _ := wire.ReadHead(r.Body, r.ContentLength, g.maxBuffered+1) // the next read returns the error again
	r.Body = restored(head, r.Body)
	return len(head) > g.maxBuffered
}

// restored returns a body whose head has been read.
func restored(head []byte, rest io.ReadCloser) io.ReadCloser {
	return struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(head), rest), rest}
}

// stream forwards the request once, under its upstream key, while the body arrives.
func (g *Gateway) stream(w http.ResponseWriter, r *http.Request, t tap) {
	switch {
	case t.malformed != nil:
		wire.WriteProblem(w, wire.Problem{
			Status: http.StatusBadRequest, Code: string(taxonomy.KeyMalformed),
			Detail: "The Idempotency-Key is malformed.",
		})
	case t.user == "":
		wire.WriteProblem(w, wire.Problem{
			Status: http.StatusUnauthorized, Code: string(taxonomy.Unauthenticated),
			Detail: "An Idempotency-Key needs a user.",
		})
	default:
		g.proxy.ServeHTTP(w, r.WithContext(redo.WithKey(r.Context(), g.upstreamKey(t.user, t.key))))
	}
}
