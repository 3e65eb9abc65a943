package server

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/redo-go/redo/internal/wire"
)

// Errors of readBody.
var (
	errBodyTooLarge = errors.New("server: body over the limit")
	errBodyConsumed = errors.New("server: the body was read before the middleware saw it")
)

// A body is a request's body that was read whole. The handler reads it again. It is a plain io.ReadCloser, like the
// bodies of net/http.
type body struct{ bytes.Reader }

// Close implements io.Closer. It does nothing: the server closes the request's own body.
func (*body) Close() error { return nil }

// readBody reads the whole body, at most limit bytes of it. A body whose length is not the request's Content-Length is
// an error, because the fingerprint must cover the whole body. A length of zero is not known: an adaptor that makes its
// request with http.NewRequest may leave it so, and net/http's server gives no body then.
func readBody(r *http.Request, limit int) ([]byte, error) {
	if r.Body == nil || r.Body == http.NoBody {
		return nil, nil
	}
	b, err := wire.ReadBody(r.Body, r.ContentLength, limit)
	switch {
	case errors.Is(err, wire.ErrBodyTooLarge):
		return nil, errBodyTooLarge
	case err != nil:
		return nil, fmt.Errorf("server: read the body: %w", err)
	}
	if len(b) == 0 && (len(r.PostForm) > 0 || r.MultipartForm != nil) {
		return nil, errBodyConsumed
	}
	if _, encoded := r.Header["Content-Encoding"]; encoded {
		return b, nil // a layer outside may have decoded it; Content-Length is that of the encoded body
	}
	if _, declared := r.Header["Content-Length"]; !declared && len(b) > 0 {
		return b, nil // a layer outside has decoded it and deleted the header, as that of gin-contrib/gzip does
	}
	if r.ContentLength > 0 && int64(len(b)) != r.ContentLength {
		return nil, fmt.Errorf("server: the body has %d bytes, Content-Length is %d: %w",
			len(b), r.ContentLength, io.ErrUnexpectedEOF)
	}
	return b, nil
}
