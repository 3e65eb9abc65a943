package webhook

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
)

// again returns a body that reads b.
func again(b []byte) io.ReadCloser {
	if len(b) == 0 {
		return http.NoBody
	}
	return io.NopCloser(bytes.NewReader(b))
}

// readBody reads the whole body, at most limit bytes of it. A body that does not have the length that the request states
// is an error: what is signed has to be what was sent.
func readBody(r *http.Request, limit int) ([]byte, error) {
	if r.Body == nil || r.Body == http.NoBody {
		return nil, nil
	}
	if r.ContentLength > int64(limit) {
		return nil, tooLarge(limit)
	}
	const unknownLength = 512
	room := unknownLength
	if r.ContentLength > 0 {
		room = int(r.ContentLength) + 1 // one more, so that the end is seen without growing
	}
	b := make([]byte, 0, room)
	for {
		n, err := r.Body.Read(b[len(b):cap(b)])
		b = b[:len(b)+n]
		if len(b) > limit {
			return nil, tooLarge(limit)
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrBody, err)
		}
		if len(b) == cap(b) {
			b = slices.Grow(b, min(len(b), limit-len(b)+1))
		}
	}
	if r.ContentLength > 0 && int64(len(b)) != r.ContentLength {
		return nil, fmt.Errorf("%w: it has %d bytes, Content-Length says %d", ErrBody, len(b), r.ContentLength)
	}
	return b, nil
}

func tooLarge(limit int) error {
	return fmt.Errorf("%w: it has more than %d bytes", ErrTooLarge, limit)
}
