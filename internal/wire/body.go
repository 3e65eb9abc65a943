package wire

import (
	"errors"
	"io"
)

// ErrBodyTooLarge is ReadBody's error for a body over the limit.
var ErrBodyTooLarge = errors.New("body over the limit")

// Sizes of ReadBody's first buffer, in bytes. A Content-Length is a claim: a sender can announce a large body and
// send none, so memory for the rest is taken only as data arrives.
const (
	unknownRoom = 512
	mostRoom    = 64 << 10
)

// ReadBody reads a body of at most limit bytes to its end. If the body is longer it returns ErrBodyTooLarge, and has
// read at most as many bytes as its buffer holds. length is the Content-Length in bytes. ReadBody refuses a length
// over the limit without a read, and otherwise uses it for the size of its buffer only. A length of zero or less is
// unknown.
//
// The buffer has at most twice the bytes that have arrived, or 64 KiB if that is more. ReadBody returns an error of
// the body unchanged.
func ReadBody(body io.Reader, length int64, limit int) ([]byte, error) {
	if length > int64(limit) {
		return nil, ErrBodyTooLarge
	}
	room := unknownRoom
	if length > 0 {
		room = int(min(length, mostRoom-1)) + 1 // one more byte, to read the end without a larger buffer
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
			b = grow(b, length, limit)
		}
	}
}

// grow copies a full buffer to one of at most twice the size. The new size is at most one byte more than length, or
// than limit if the body is longer than length. The sums can't overflow: b is not empty, and not over the limit.
func grow(b []byte, length int64, limit int) []byte {
	most := limit
	if length >= int64(len(b)) {
		most = int(length)
	}
	more := min(len(b), most-len(b)+1)
	grown := make([]byte, len(b), len(b)+more)
	copy(grown, b)
	return grown
}
