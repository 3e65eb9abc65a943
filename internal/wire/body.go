package wire

import (
	"errors"
	"io"
	"slices"
)

// ErrBodyTooLarge is ReadBody's error for a body over the limit.
var ErrBodyTooLarge = errors.New("body over the limit")

// ReadBody reads a body to its end, and no more of it than shows that it is over the limit. length is what Content-Length
// says of it, in bytes; it only serves to take the memory at once, and zero or less says nothing. Errors of the body come as
// they are.
func ReadBody(body io.Reader, length int64, limit int) ([]byte, error) {
	if length > int64(limit) {
		return nil, ErrBodyTooLarge
	}
	const unknownLength = 512
	room := unknownLength
	if length > 0 {
		room = int(length) + 1 // one more, so that the end is seen without growing
	}
	b := make([]byte, 0, room)
	for {
		n, err := body.Read(b[len(b):cap(b)])
		b = b[:len(b)+n]
		if len(b) > limit {
			return nil, ErrBodyTooLarge
		}
		if errors.Is(err, io.EOF) {
			return b, nil
		}
		if err != nil {
			return nil, err
		}
		if len(b) == cap(b) {
			b = slices.Grow(b, min(len(b), limit-len(b)+1))
		}
	}
}
