package journal

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/redo-go/redo/internal/wire"
	"github.com/redo-go/redo/taxonomy"
)

// A Settlement is the result of an operation: the response, and its meaning if it is no plain success.
type Settlement struct {
	Code     taxonomy.Code // empty: a plain success
	Effect   taxonomy.Effect
	Said     bool           // the server stated the code
	BodyKept bool           // false: only the server has the response's body
	Response *wire.Response // nil: there was none, or it must not be stored
	Finding  *Finding       // nil: the server's response settled the operation
}

// A Finding is the evidence of a person or a program that settled an operation.
type Finding struct{ Evidence, By string }

// WithResponse returns s with resp, whose body is body. The body is left out if whole is false. The response is left
// out if it forbids storage. The response is also left out, with an error, if it is over a limit of the envelope.
func (s Settlement) WithResponse(resp *http.Response, body []byte, whole bool) (Settlement, error) {
	s.Response, s.BodyKept = nil, false
	if wire.NoStore(resp.Header) {
		return s, nil
	}
	r := wire.Response{Status: resp.StatusCode, Header: wire.EndToEnd(resp.Header)}
	if whole {
		r.Body = body
	}
	if err := r.Check(); err != nil {
		return s, err
	}
	s.Response, s.BodyKept = &r, whole
	return s, nil
}

// Found returns the settlement of a finding about an operation. resp is the response that another call of an applied
// operation returns, or nil. Found reads its body, which has at most limit bytes.
func Found(effect taxonomy.Effect, f Finding, resp *http.Response, limit int) (Settlement, error) {
	s := Settlement{Effect: effect, Finding: &f}
	if resp == nil || effect != taxonomy.Applied || wire.NoStore(resp.Header) {
		return s, nil
	}
	if resp.StatusCode/100 != 2 {
		return s, fmt.Errorf("the finding's response has the status %d, it must be a 2xx: another call returns it",
			resp.StatusCode)
	}
	var body []byte
	if resp.Body != nil {
		b, err := wire.ReadHead(resp.Body, resp.ContentLength, limit+1)
		switch {
		case err != nil:
			return s, fmt.Errorf("reading the finding's response: %w", err)
		case len(b) > limit:
			return s, fmt.Errorf("the finding's response has more than the %d bytes of WithMaxStoredBody", limit)
		}
		body = b
	}
	return s.WithResponse(resp, body, true)
}

// HTTP returns the stored response as the response to req. It returns nil if there is none.
func (s Settlement) HTTP(req *http.Request) *http.Response {
	r := s.Response
	if r == nil {
		return nil
	}
	return &http.Response{
		Status: fmt.Sprintf("%d %s", r.Status, http.StatusText(r.Status)), StatusCode: r.Status,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: r.Header,
		Body: io.NopCloser(bytes.NewReader(r.Body)), ContentLength: int64(len(r.Body)), Request: req,
	}
}

const (
	flagSaid = 1 << iota
	flagBodyKept
	flagResponse
	flagFinding
)

// Encode returns the settlement as bytes: the version, the flags, the effect, and then the parts that the flags name.
func (s Settlement) Encode() []byte {
	var flags byte
	for flag, set := range map[byte]bool{
		flagSaid: s.Said, flagBodyKept: s.BodyKept, flagResponse: s.Response != nil, flagFinding: s.Finding != nil,
	} {
		if set {
			flags |= flag
		}
	}
	b := appendText([]byte{Version, flags, byte(s.Effect)}, string(s.Code))
	if s.Finding != nil {
		b = appendText(appendText(b, s.Finding.Evidence), s.Finding.By)
	}
	if s.Response != nil {
		b = wire.AppendResponse(b, *s.Response)
	}
	return b
}

func appendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// errCut reports a settlement that ends too early.
var errCut = errors.New("redo: the stored outcome is cut off")

// DecodeSettlement reads the result of [Settlement.Encode].
func DecodeSettlement(b []byte) (Settlement, error) {
	var s Settlement
	if len(b) < 4 {
		return s, errCut
	}
	if b[0] != Version {
		return s, fmt.Errorf("%w: %d, this is %d", ErrVersion, b[0], Version)
	}
	flags, rest := b[1], b[3:]
	if flags >= flagFinding<<1 || taxonomy.Effect(b[2]) > taxonomy.Applied {
		return s, errors.New("redo: the stored outcome has flags or an effect that this version does not know")
	}
	s.Said, s.BodyKept, s.Effect = flags&flagSaid != 0, flags&flagBodyKept != 0, taxonomy.Effect(b[2])
	text := func() (s string, ok bool) {
		n, w := binary.Uvarint(rest)
		if w <= 0 || n > uint64(len(rest)-w) {
			return "", false
		}
		s, rest = string(rest[w:w+int(n)]), rest[w+int(n):]
		return s, true
	}
	code, ok := text()
	if !ok {
		return s, errCut
	}
	s.Code = taxonomy.Code(code)
	if flags&flagFinding != 0 {
		evidence, ok := text()
		by, ok2 := text()
		if !ok || !ok2 {
			return s, errCut
		}
		s.Finding = &Finding{Evidence: evidence, By: by}
	}
	if flags&flagResponse != 0 {
		r, err := wire.DecodeResponse(rest)
		if err != nil {
			return s, fmt.Errorf("redo: the stored outcome can't be read: %w", err)
		}
		s.Response = &r
	}
	return s, nil
}
