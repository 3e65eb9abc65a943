package redo

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"unicode/utf8"

	"github.com/redo-go/redo/internal/wire"
	"github.com/redo-go/redo/taxonomy"
)

// storedVersion is the version of both envelopes below. A record of another version is an error and never a
// reason to run an operation anew.
const storedVersion = 1

// errStoredVersion: the store holds a record that this version of redo can't read.
var errStoredVersion = errors.New("redo: the stored operation has another version")

// storedRequest is a pending operation's meta: its key and, unless that was switched off or the body is over
// the cap, what it takes to send it again. It is JSON, so that an operator can read it.
type storedRequest struct {
	Version int         `json:"v"`
	Key     string      `json:"key"`
	Method  string      `json:"method,omitempty"`
	URL     string      `json:"url,omitempty"`
	Host    string      `json:"host,omitempty"`
	Header  http.Header `json:"header,omitempty"`
	Body    []byte      `json:"body"` // null: no body was sent
	// Whole is true when the request can be sent again from here.
	Whole bool `json:"whole"`
	// Unapplied is true while every attempt so far is known not to have been applied.
	Unapplied bool `json:"unapplied,omitempty"`
}

func (s storedRequest) encode() ([]byte, error) { return json.Marshal(s) }

func decodeRequest(meta []byte) (storedRequest, error) {
	var s storedRequest
	if err := json.Unmarshal(meta, &s); err != nil {
		return s, fmt.Errorf("redo: the stored operation can't be read: %w", err)
	}
	if s.Version != storedVersion {
		return s, fmt.Errorf("%w: %d, this is %d", errStoredVersion, s.Version, storedVersion)
	}
	return s, nil
}

// alwaysStored are the request headers that change what a request means, and carry no credentials.
var alwaysStored = []string{
	"Accept", "Accept-Language", "Content-Type", "Content-Encoding", "Content-Language", "If-Match", "If-None-Match", "Prefer",
}

// storable returns what of the request may be at rest: never credentials, neither in headers nor in the URL.
func (c *Client) storable(req *http.Request, key string, body []byte, whole bool) storedRequest {
	s := storedRequest{Version: storedVersion, Key: key}
	if c.noRequests {
		return s
	}
	u := url.URL{Scheme: req.URL.Scheme, Host: req.URL.Host, Opaque: req.URL.Opaque, Path: req.URL.Path, RawPath: req.URL.RawPath, RawQuery: req.URL.RawQuery}
	s.Method, s.URL, s.Host = req.Method, u.String(), req.Host
	text := utf8.ValidString(s.URL) && utf8.ValidString(s.Host)
	for _, names := range [2][]string{alwaysStored, c.profile.StoredHeaders} {
		for _, name := range names {
			name = http.CanonicalHeaderKey(name)
			if v := req.Header[name]; v != nil {
				text = text && !slices.ContainsFunc(v, func(s string) bool { return !utf8.ValidString(s) })
				if s.Header == nil {
					s.Header = http.Header{}
				}
				s.Header[name] = v
			}
		}
	}
	// JSON would replace what is not UTF-8, and another request would be sent again than the one that was.
	if s.Whole = whole && text; s.Whole {
		s.Body = body
	}
	return s
}

// An outcome is a settled operation's result: the answer, and what it meant when it was not a plain success.
type outcome struct {
	code     taxonomy.Code // empty: a plain success
	effect   Effect
	said     bool
	bodyKept bool // false: the body was over the cap, and only the server has it
	response *wire.Response
}

const (
	flagSaid = 1 << iota
	flagBodyKept
	flagResponse
)

func (o outcome) encode() []byte {
	var flags byte
	if o.said {
		flags |= flagSaid
	}
	if o.bodyKept {
		flags |= flagBodyKept
	}
	if o.response != nil {
		flags |= flagResponse
	}
	b := []byte{storedVersion, flags, byte(o.effect)}
	b = binary.AppendUvarint(b, uint64(len(o.code)))
	b = append(b, o.code...)
	if o.response != nil {
		b = wire.AppendResponse(b, *o.response)
	}
	return b
}

func decodeOutcome(b []byte) (outcome, error) {
	var o outcome
	if len(b) < 4 {
		return o, errors.New("redo: the stored outcome is cut off")
	}
	if b[0] != storedVersion {
		return o, fmt.Errorf("%w: %d, this is %d", errStoredVersion, b[0], storedVersion)
	}
	flags := b[1]
	o.said, o.bodyKept, o.effect = flags&flagSaid != 0, flags&flagBodyKept != 0, Effect(b[2])
	n, w := binary.Uvarint(b[3:])
	if w <= 0 || n > uint64(len(b)-3-w) {
		return o, errors.New("redo: the stored outcome is cut off")
	}
	rest := b[3+w:]
	o.code, rest = taxonomy.Code(rest[:n]), rest[n:]
	if flags&flagResponse != 0 {
		r, err := wire.DecodeResponse(rest)
		if err != nil {
			return o, fmt.Errorf("redo: the stored outcome can't be read: %w", err)
		}
		o.response = &r
	}
	return o, nil
}
