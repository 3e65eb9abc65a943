package redo

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"unicode/utf8"

	"github.com/redo-go/redo/internal/wire"
	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/taxonomy"
)

// storedVersion is the version of both envelopes below. A record of another version is an error, and never a reason
// to run an operation anew.
const storedVersion = 1

// errStoredVersion reports a record that this version of redo can't read.
var errStoredVersion = errors.New("redo: the stored operation has another version")

// A storedRequest is the meta of an operation's record: its key and the parts of the request that may be stored. It
// is JSON, so that an operator can read it.
type storedRequest struct {
	Version int         `json:"v"`
	Key     string      `json:"key"`
	Method  string      `json:"method,omitempty"`
	URL     string      `json:"url,omitempty"`
	Host    string      `json:"host,omitempty"`
	Header  http.Header `json:"header,omitempty"`
	Body    []byte      `json:"body"` // null: the request had none
	// Whole is true if URL and body are complete.
	Whole bool `json:"whole"`
	// Dropped lists the headers of the request that were not stored and may change its meaning.
	Dropped []string `json:"dropped,omitempty"`
	// Unapplied is true while every attempt so far is known not to have been applied.
	Unapplied bool `json:"unapplied,omitempty"`
	// Rest is the settlement of an operation whose final response leaves the effect unknown. It is never sent again.
	Rest []byte `json:"rest,omitempty"`
}

// encode returns the meta. A request that is too long for the store is reduced to its key.
func (s storedRequest) encode() ([]byte, error) {
	b, err := json.Marshal(s)
	if err == nil && len(b) > store.MaxMeta {
		b, err = json.Marshal(storedRequest{Version: s.Version, Key: s.Key, Unapplied: s.Unapplied, Rest: s.Rest})
	}
	return b, err
}

// decodeRequest reads what [storedRequest.encode] wrote.
func decodeRequest(meta []byte) (storedRequest, error) {
	var s storedRequest
	if err := json.Unmarshal(meta, &s); err != nil {
		return s, fmt.Errorf("redo: the stored operation can't be read: %w", err)
	}
	if s.Version != storedVersion {
		return s, fmt.Errorf("%w: %d, this is %d", errStoredVersion, s.Version, storedVersion)
	}
	return s, wire.CheckKey(s.Key)
}

// alwaysStored are the request headers that change a request's meaning and carry no credentials.
var alwaysStored = []string{
	"Accept",
	"Accept-Language",
	"Content-Type",
	"Content-Encoding",
	"Content-Language",
	"If-Match",
	"If-None-Match",
	"Prefer",
}

// unimportant are the request headers that change no request's meaning, beside those of one hop, one request or one
// trace.
var unimportant = []string{
	"Accept-Encoding",
	"User-Agent",
	"Referer",
	"Origin",
	"Expect",
	"Cache-Control",
	"Pragma",
	"Priority",
}

// meaning returns the request headers that are stored, and the names of those that are not and may change the
// request's meaning. Credentials are among the latter: they are never stored.
func (c *Client) meaning(h http.Header) (stored http.Header, dropped []string) {
	p := &c.profile
	own := []string{p.Header, p.TimeoutHeader, p.FirstSentHeader}
	for name, values := range h {
		canonical := http.CanonicalHeaderKey(name)
		switch {
		case slices.Contains(alwaysStored, canonical), slices.Contains(p.StoredHeaders, canonical):
			if stored == nil {
				stored = http.Header{}
			}
			stored[canonical] = values
		case slices.Contains(own, canonical), slices.Contains(unimportant, canonical), !wire.Replayable(canonical):
		default:
			dropped = append(dropped, canonical)
		}
	}
	slices.Sort(dropped)
	return stored, dropped
}

// storable returns the parts of the request that may be stored. whole is true if body is the request's whole body.
func (c *Client) storable(req *http.Request, key string, body []byte, whole bool) storedRequest {
	s := storedRequest{Version: storedVersion, Key: key}
	if c.noRequests {
		return s
	}
	u, secret := wire.WithoutCredentials(req.URL)
	s.Method, s.URL, s.Host = req.Method, u.String(), req.Host
	s.Header, s.Dropped = c.meaning(req.Header)
	if req.URL.User != nil && !slices.Contains(s.Dropped, "Authorization") {
		s.Dropped = append(s.Dropped, "Authorization")
	}
	text := utf8.ValidString(s.URL) && utf8.ValidString(s.Host)
	for _, v := range s.Header {
		text = text && !slices.ContainsFunc(v, func(s string) bool { return !utf8.ValidString(s) })
	}
	// JSON replaces bytes that are not UTF-8, so that Resume would send another request than the first.
	if s.Whole = whole && text && !secret; s.Whole {
		s.Body = body
	}
	return s
}

// errNoCredentials reports a stored request that was first sent with credentials.
var errNoCredentials = errors.New("is never stored")

// resumable returns nil if the stored request can be sent as it was, and otherwise an error. The parameter
// credentials is true if the client adds credentials to each attempt.
func (s storedRequest) resumable(credentials bool) error {
	if !s.Whole {
		return errors.New("the store does not hold the whole request")
	}
	for _, name := range s.Dropped {
		switch {
		case !wire.CredentialHeader(name):
			return fmt.Errorf("the store does not hold the header %s: name it in Profile.StoredHeaders", name)
		case !credentials:
			return fmt.Errorf("the header %s %w: add it with WithCredentials", name, errNoCredentials)
		}
	}
	return nil
}

// A settlement is the result of an operation: the response, and its meaning if it is no plain success.
type settlement struct {
	code     taxonomy.Code // empty: a plain success
	effect   Effect
	said     bool
	bodyKept bool // false: only the server has the response's body
	response *wire.Response
	finding  *Finding // nil: the server's response settled the operation
}

const (
	flagSaid = 1 << iota
	flagBodyKept
	flagResponse
	flagFinding
)

// encode returns the settlement as bytes: the version, the flags, the effect, and then the parts that the flags name.
func (s settlement) encode() []byte {
	var flags byte
	for flag, set := range map[byte]bool{
		flagSaid: s.said, flagBodyKept: s.bodyKept, flagResponse: s.response != nil, flagFinding: s.finding != nil,
	} {
		if set {
			flags |= flag
		}
	}
	b := appendText([]byte{storedVersion, flags, byte(s.effect)}, string(s.code))
	if s.finding != nil {
		b = appendText(appendText(b, s.finding.Evidence), s.finding.By)
	}
	if s.response != nil {
		b = wire.AppendResponse(b, *s.response)
	}
	return b
}

func appendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// decodeSettlement reads what [settlement.encode] wrote.
func decodeSettlement(b []byte) (settlement, error) {
	var o settlement
	cut := errors.New("redo: the stored outcome is cut off")
	if len(b) < 4 {
		return o, cut
	}
	if b[0] != storedVersion {
		return o, fmt.Errorf("%w: %d, this is %d", errStoredVersion, b[0], storedVersion)
	}
	flags, rest := b[1], b[3:]
	if flags >= flagFinding<<1 || Effect(b[2]) > Applied {
		return o, errors.New("redo: the stored outcome has flags or an effect that this version does not know")
	}
	o.said, o.bodyKept, o.effect = flags&flagSaid != 0, flags&flagBodyKept != 0, Effect(b[2])
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
		return o, cut
	}
	o.code = taxonomy.Code(code)
	if flags&flagFinding != 0 {
		evidence, ok := text()
		by, ok2 := text()
		if !ok || !ok2 {
			return o, cut
		}
		o.finding = &Finding{Effect: o.effect, Evidence: evidence, By: by}
	}
	if flags&flagResponse != 0 {
		r, err := wire.DecodeResponse(rest)
		if err != nil {
			return o, fmt.Errorf("redo: the stored outcome can't be read: %w", err)
		}
		o.response = &r
	}
	return o, nil
}
