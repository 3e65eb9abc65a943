package webhook

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/redo-go/redo/internal/wire"
)

// again returns a body that reads b.
func again(b []byte) io.ReadCloser {
	if len(b) == 0 {
		return http.NoBody
	}
	return io.NopCloser(bytes.NewReader(b))
}

// readBody reads the whole body, up to limit bytes. A body that does not have the length that the request states is an
// error, since the signature covers the body that was sent.
func readBody(r *http.Request, limit int) ([]byte, error) {
	if r.Body == nil || r.Body == http.NoBody {
		return nil, nil
	}
	b, err := wire.ReadBody(r.Body, r.ContentLength, limit)
	switch {
	case errors.Is(err, wire.ErrBodyTooLarge):
		return nil, tooLarge(limit)
	case err != nil:
		return nil, fmt.Errorf("%w: %w", ErrBody, err)
	}
	if r.ContentLength > 0 && int64(len(b)) != r.ContentLength {
		return nil, fmt.Errorf("%w: it has %d bytes, Content-Length is %d", ErrBody, len(b), r.ContentLength)
	}
	return b, nil
}

func tooLarge(limit int) error {
	return fmt.Errorf("%w: it has more than %d bytes", ErrTooLarge, limit)
}
