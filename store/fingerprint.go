package store

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
)

// A Fingerprint identifies a request's payload: a version byte that names the algorithm, then a SHA-256. Two
// fingerprints of different versions are never equal. The zero Fingerprint means that none was computed.
type Fingerprint [1 + sha256.Size]byte

// Versions of the algorithm.
const (
	// RawV1 hashes the body's bytes as they are.
	RawV1 byte = 1
	// CanonicalJSONV1 hashes the body's canonical JSON form.
	CanonicalJSONV1 byte = 2
)

// Raw returns the fingerprint over method, path, query and the body's bytes. The parts are length-prefixed,
// so that no two different requests hash the same input.
func Raw(method, path, query string, body []byte) Fingerprint {
	return sum(RawV1, method, path, query, body)
}

func sum(version byte, method, path, query string, body []byte) Fingerprint {
	var buf [512]byte // on the stack: the usual prefix needs no allocation
	h := sha256.New()
	h.Write(prefix(buf[:0], version, method, path, query))
	h.Write(body)
	f := Fingerprint{version}
	h.Sum(f[1:1])
	return f
}

// prefix appends the parts that are hashed before the body.
func prefix(in []byte, version byte, method, path, query string) []byte {
	in = append(in, version)
	for _, s := range [...]string{method, path, query} {
		in = binary.AppendUvarint(in, uint64(len(s)))
		in = append(in, s...)
	}
	return in
}

// Version returns the algorithm's version, zero for the zero Fingerprint.
func (f Fingerprint) Version() byte { return f[0] }

// IsZero reports whether no fingerprint was computed.
func (f Fingerprint) IsZero() bool { return f == Fingerprint{} }

// String returns the fingerprint in hexadecimal.
func (f Fingerprint) String() string { return hex.EncodeToString(f[:]) }

// ParseFingerprint parses the text that String returns.
func ParseFingerprint(s string) (Fingerprint, error) {
	var f Fingerprint
	if len(s) != hex.EncodedLen(len(f)) {
		return Fingerprint{}, fmt.Errorf("store: a fingerprint has %d hexadecimal digits, %q has %d",
			hex.EncodedLen(len(f)), s, len(s))
	}
	if _, err := hex.Decode(f[:], []byte(s)); err != nil {
		return Fingerprint{}, fmt.Errorf("store: fingerprint %q: %w", s, err)
	}
	return f, nil
}

// RawReader is [Raw] over a body that is read to its end and not held in memory.
func RawReader(method, path, query string, body io.Reader) (Fingerprint, error) {
	h := sha256.New()
	h.Write(prefix(nil, RawV1, method, path, query))
	if _, err := io.Copy(h, body); err != nil {
		return Fingerprint{}, fmt.Errorf("store: fingerprint: %w", err)
	}
	f := Fingerprint{RawV1}
	h.Sum(f[1:1])
	return f, nil
}
