package wire

import (
	"errors"
	"io"
	"math"
)

// ErrBodyTooLarge is ReadBody's error for a body over the limit.
var ErrBodyTooLarge = errors.New("body over the limit")

// Sizes of the first buffer, in bytes. A Content-Length is a claim: a sender can announce a large body and send none,
// so memory for the rest is taken only as data arrives.
const (
	unknownRoom = 512
	mostRoom    = 64 << 10
)

// ReadBody reads a body of at most limit bytes to its end. If the body is longer it returns ErrBodyTooLarge, and has
// read at most as many bytes as its buffer holds. It refuses a length over the limit without a read. Otherwise length
// has the meaning that it has for [ReadHead]. ReadBody returns an error of the body unchanged.
func ReadBody(body io.Reader, length int64, limit int) ([]byte, error) {
	if length > int64(limit) {
		return nil, ErrBodyTooLarge
	}
	b, err := ReadHead(body, length, limit+1)
	switch {
	case err != nil:
		return nil, err
	case len(b) > limit:
		return nil, ErrBodyTooLarge
	}
	return b, nil
}

// ReadHead reads up to limit bytes of a body. It returns nil as the error at the end of the body and at the limit. It
// returns any other error of the body unchanged, with the bytes read before. A negative limit sets none. length is the
// Content-Length in bytes, and zero or less if it is unknown. It decides only the size of the buffer.
//
// The buffer has at most twice the bytes that have arrived, or 64 KiB if that is more.
func ReadHead(body io.Reader, length int64, limit int) ([]byte, error) {
	if limit < 0 {
		limit = math.MaxInt
	}
	room := unknownRoom
	if length > 0 {
		room = int(min(uint64(length)+1, mostRoom)) // one more byte, to read the end without a larger buffer
	}
	b := make([]byte, 0, min(room, limit))
	for len(b) < limit {
		if len(b) == cap(b) {
			b = grow(b, length, limit)
		}
		n, err := body.Read(b[len(b):cap(b)])
		b = b[:len(b)+n]
		switch {
		case len(b) == limit, errors.Is(err, io.EOF):
			return b, nil
		case err != nil:
			return b, err
		}
	}
	return b, nil
}

// grow copies a full buffer to one of at most twice the size. The new size is at most limit, and at most one byte more
// than length unless the body is longer. The sums can't overflow: b is not empty, and shorter than limit.
func grow(b []byte, length int64, limit int) []byte {
	more := min(len(b), limit-len(b))
	if length >= int64(len(b)) {
		more = int(min(int64(more), length-int64(len(b))+1))
	}
	grown := make([]byte, len(b), len(b)+more)
	copy(grown, b)
	return grown
}
