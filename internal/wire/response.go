package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// A Response is a response as it is stored and replayed.
type Response struct {
	Status int // 200 to 999
	Header http.Header
	Body   []byte // nil if the handler never wrote; empty if it wrote zero bytes
}

// Limits on a stored header. They bound the memory that DecodeResponse takes.
const (
	MaxHeaderNames  = 256     // number of names
	MaxHeaderValues = 1024    // number of values of all names together
	MaxHeaderBytes  = 1 << 20 // bytes of all names and values, with their lengths
)

// The envelope, version 1. Numbers are unsigned varints. A string is its length and its bytes.
//
//	version (one byte, 1), kind (one byte), status,
//	number of names, number of values, bytes of the header section,
//	header section: for each name, in order: the name, its number of values, the values
//	body: the rest
//
// The kinds are noBody, withBody and tombstone. A tombstone marks a response that was too large. It ends after the
// status.
const (
	envelopeV1 = 1

	noBody    = 0
	withBody  = 1
	tombstone = 2
)

// Errors of DecodeResponse and Check, for errors.Is.
var (
	// ErrVersion means that the envelope has a newer version than this code can read.
	ErrVersion = errors.New("stored response of a newer version")
	// ErrEnvelope means that the bytes are not a whole envelope.
	ErrEnvelope = errors.New("stored response is damaged")
	// ErrNotStored means that the envelope is a tombstone: the response was too large to be stored.
	ErrNotStored = errors.New("the response was too large to be stored")
	// ErrTooLarge means that the response is over a limit of the envelope.
	ErrTooLarge = errors.New("response too large to be stored")
)

// A Field is one name of a header and its values, in order.
type Field struct {
	Name   string
	Values []string // nil means that the header is not sent, even if net/http has a default for it
}

// Check returns nil if DecodeResponse can read back the envelope that AppendResponse makes of r. The error matches
// ErrTooLarge and names the limit, or names a status outside 200 to 999.
func (r Response) Check() error {
	var few [fewFields]Field
	return CheckFields(r.Status, r.fields(few[:0]))
}

// CheckFields is Check for a header that is a list of fields.
func CheckFields(status int, header []Field) error {
	if status < 200 || status > 999 {
		return fmt.Errorf("status %d is no final status", status)
	}
	if len(header) > MaxHeaderNames {
		return fmt.Errorf("%w: %d header names, at most %d are kept", ErrTooLarge, len(header), MaxHeaderNames)
	}
	values, size := headerSize(header)
	if values > MaxHeaderValues {
		return fmt.Errorf("%w: %d header values, at most %d are kept", ErrTooLarge, values, MaxHeaderValues)
	}
	if size > MaxHeaderBytes {
		return fmt.Errorf("%w: a header of %d bytes, at most %d are kept", ErrTooLarge, size, MaxHeaderBytes)
	}
	return nil
}

// AppendResponse appends the envelope of r to dst and returns the result. The same response always gives the same
// bytes. AppendResponse does not check r: see [Response.Check].
func AppendResponse(dst []byte, r Response) []byte {
	var few [fewFields]Field
	return AppendFields(dst, r.Status, r.fields(few[:0]), r.Body)
}

// AppendFields is AppendResponse for a header that is a list of fields. It sorts the list in place. No two fields may
// have the same name.
func AppendFields(dst []byte, status int, header []Field, body []byte) []byte {
	values, size := headerSize(header)
	const fixed = 2 + 4*binary.MaxVarintLen32
	dst = slices.Grow(dst, fixed+size+len(body))

	kind := byte(noBody)
	if body != nil {
		kind = withBody
	}
	dst = append(dst, envelopeV1, kind)
	dst = appendUint(dst, status)
	dst = appendUint(dst, len(header))
	dst = appendUint(dst, values)
	dst = appendUint(dst, size)

	slices.SortFunc(header, func(a, b Field) int { return strings.Compare(a.Name, b.Name) })
	for _, f := range header {
		dst = appendString(dst, f.Name)
		dst = appendUint(dst, len(f.Values))
		for _, v := range f.Values {
			dst = appendString(dst, v)
		}
	}
	return append(dst, body...)
}

// fewFields is the number of fields that need no allocation. Few responses have more.
const fewFields = 24

func (r Response) fields(dst []Field) []Field {
	for name, values := range r.Header {
		dst = append(dst, Field{name, values})
	}
	return dst
}

// AppendTombstone appends the envelope of a response that was too large to be stored, and returns the result. For
// such an envelope DecodeResponse returns the status and ErrNotStored.
func AppendTombstone(dst []byte, status int) []byte {
	return appendUint(append(dst, envelopeV1, tombstone), status)
}

// DecodeResponse returns the response in an envelope. The header is never nil, and the caller may append to each of
// its value lists. The body aliases b. It is nil only if it was nil when it was stored. The error matches ErrVersion,
// ErrNotStored or ErrEnvelope. The memory that DecodeResponse takes is bounded by the length of b and by the limits
// above.
func DecodeResponse(b []byte) (Response, error) {
	if len(b) < 2 {
		return Response{}, fmt.Errorf("%w: %d bytes", ErrEnvelope, len(b))
	}
	if b[0] > envelopeV1 {
		return Response{}, fmt.Errorf("%w: %d, this version reads %d", ErrVersion, b[0], envelopeV1)
	}
	kind := b[1]
	d := decoder{rest: b[2:]}
	status := d.number(999)
	if b[0] != envelopeV1 || d.failed || status < 200 || kind > tombstone {
		return Response{}, fmt.Errorf("%w: version %d, kind %d, status %d", ErrEnvelope, b[0], kind, status)
	}
	if kind == tombstone {
		if len(d.rest) > 0 {
			return Response{}, fmt.Errorf("%w: %d bytes after a tombstone", ErrEnvelope, len(d.rest))
		}
		return Response{Status: status}, ErrNotStored
	}
	header, err := d.header()
	if err != nil {
		return Response{}, err
	}
	r := Response{Status: status, Header: header}
	switch {
	case kind == withBody:
		r.Body = d.rest[:len(d.rest):len(d.rest)]
	case len(d.rest) > 0:
		return Response{}, fmt.Errorf("%w: %d bytes of a body where there should be none", ErrEnvelope, len(d.rest))
	}
	return r, nil
}

// A decoder reads numbers and strings from the start of rest. Once it can't read one it sets failed, which stays set.
type decoder struct {
	rest   []byte
	failed bool
}

func (d *decoder) header() (http.Header, error) {
	names, values, size := d.number(MaxHeaderNames), d.number(MaxHeaderValues), d.number(MaxHeaderBytes)
	// A name takes at least two bytes and a value at least one. The number of bytes thus bounds the allocations below.
	if d.failed || size > len(d.rest) || 2*names+values > size {
		return nil, fmt.Errorf("%w: %d names, %d values and %d bytes do not fit", ErrEnvelope, names, values, size)
	}
	h := make(http.Header, names)
	all := make([]string, values) // one backing array for every value list
	text := string(d.rest[:size]) // and one for every string
	s := textDecoder{decoder: decoder{rest: d.rest[:size]}, text: text}
	d.rest = d.rest[size:]
	last := ""
	for i := range names {
		name, n := s.string(), s.number(len(all))
		if s.failed || i > 0 && name <= last {
			return nil, fmt.Errorf("%w: header name %d", ErrEnvelope, i)
		}
		last = name
		for j := range n {
			all[j] = s.string()
		}
		h[name] = all[:n:n]
		if n == 0 {
			h[name] = nil
		}
		all = all[n:]
	}
	if s.failed || len(s.rest) > 0 || len(all) > 0 {
		return nil, fmt.Errorf("%w: the header does not fill its section", ErrEnvelope)
	}
	return h, nil
}

// number reads an unsigned varint in its shortest form. It fails if the number is over the limit.
func (d *decoder) number(limit int) int {
	v, n := binary.Uvarint(d.rest)
	if v > uint64(limit) || n != uvarintLen(int(v)) {
		d.failed = true
		return 0
	}
	d.rest = d.rest[n:]
	return int(v)
}

// A textDecoder reads its strings as slices of one string that holds the same bytes.
type textDecoder struct {
	decoder
	text string
}

func (d *textDecoder) string() string {
	n := d.number(len(d.rest))
	if n > len(d.rest) {
		d.failed = true
		return ""
	}
	at := len(d.text) - len(d.rest)
	d.rest = d.rest[n:]
	return d.text[at : at+n]
}

// headerSize returns the number of values and the length of the header section.
func headerSize(header []Field) (values, size int) {
	for _, f := range header {
		values += len(f.Values)
		size += uvarintLen(len(f.Name)) + len(f.Name) + uvarintLen(len(f.Values))
		for _, v := range f.Values {
			size += uvarintLen(len(v)) + len(v)
		}
	}
	return values, size
}

func appendUint(dst []byte, n int) []byte { return binary.AppendUvarint(dst, uint64(n)) }

func appendString(dst []byte, s string) []byte { return append(appendUint(dst, len(s)), s...) }

func uvarintLen(n int) int {
	length := 1
	for v := uint64(n); v >= 0x80; v >>= 7 {
		length++
	}
	return length
}
