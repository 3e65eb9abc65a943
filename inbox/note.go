package inbox

import (
	"encoding/binary"
	"errors"
	"time"
	"unicode/utf8"
)

// A note is the inbox's part of a record. It is the meta of a pending event, the result of a settled one, and, with the
// payload, the meta of a dead letter. Its form:
//
//	version (one byte), attempts (unsigned varint), received, processed (signed varints, nanoseconds since 1970, 0: none),
//	length of the error (unsigned varint), error, payload: the rest
//
// The version is 1, and 2 for a letter whose outcome is unknown: a program that does not know such letters can't
// redrive it.
type note struct {
	attempts  int
	received  time.Time
	processed time.Time // while the event is pending and has no lease: when the last attempt was counted
	err       string
	payload   []byte
	unknown   bool // of a letter: the handler's effect is unknown
}

const (
	noteV1      = 1
	noteUnknown = 2
	maxError    = 4 << 10 // bytes of an error's text that are kept
	maxNote     = 8 << 10 // room for all but the payload
)

var errNote = errors.New("inbox: a stored note is damaged, or of an unknown version")

func (n note) encode() []byte {
	text := clip(n.err)
	b := make([]byte, 0, 64+len(text)+len(n.payload))
	version := byte(noteV1)
	if n.unknown {
		version = noteUnknown
	}
	b = append(b, version)
	b = binary.AppendUvarint(b, uint64(n.attempts))
	b = binary.AppendVarint(b, nanos(n.received))
	b = binary.AppendVarint(b, nanos(n.processed))
	b = binary.AppendUvarint(b, uint64(len(text)))
	b = append(b, text...)
	return append(b, n.payload...)
}

// decodeNote parses the form that encode writes. It keeps no part of b.
func decodeNote(b []byte) (note, error) {
	if len(b) == 0 || b[0] != noteV1 && b[0] != noteUnknown {
		return note{}, errNote
	}
	n := note{unknown: b[0] == noteUnknown}
	b = b[1:]
	bad := false
	unsigned := func(limit uint64) uint64 {
		v, n := binary.Uvarint(b)
		if n <= 0 || v > limit {
			bad = true
			return 0
		}
		b = b[n:]
		return v
	}
	instant := func() time.Time {
		v, n := binary.Varint(b)
		if n <= 0 {
			bad = true
			return time.Time{}
		}
		b = b[n:]
		if v == 0 {
			return time.Time{}
		}
		return time.Unix(0, v).UTC()
	}
	n.attempts = int(unsigned(1 << 31))
	n.received = instant()
	n.processed = instant()
	length := int(unsigned(maxError))
	if bad || length > len(b) {
		return note{}, errNote
	}
	n.err = string(b[:length])
	n.payload = append([]byte{}, b[length:]...)
	return n, nil
}

func nanos(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}

// clip shortens an error's text to maxError bytes, and cuts no character apart.
func clip(s string) string {
	if len(s) <= maxError {
		return s
	}
	s = s[:maxError]
	for len(s) > 0 {
		if r, size := utf8.DecodeLastRuneInString(s); r != utf8.RuneError || size != 1 {
			break
		}
		s = s[:len(s)-1]
	}
	return s
}
