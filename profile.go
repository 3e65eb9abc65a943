package redo

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/redo-go/redo/internal/decision"
	"github.com/redo-go/redo/internal/wire"
	"github.com/redo-go/redo/taxonomy"
)

// A Profile describes how one API handles idempotency. It is a plain value: ten lines describe an API of your own.
// Package profile describes public APIs. Each zero field has the default that its comment names.
type Profile struct {
	// Name appears in errors.
	Name string
	// Header is the request header that carries the key. Default Idempotency-Key.
	Header string
	// KeyInBody means that the API takes the key in the payload. redo then sends no key header. The caller gives the
	// key with WithKey, or derives it from the operation's name, and writes it into each payload.
	KeyInBody bool
	// NoKeys means that the API has no idempotency keys. redo makes none, and repeats only safe requests and requests
	// that were never written.
	NoKeys bool
	// KeepRequestKey sends the key of a request's own header, even for a named operation. By default the operation's
	// key replaces it under Client.Transport.
	KeepRequestKey bool
	// Quoted sends the key as a structured-field string, "k" with the quotes (RFC 9651 §3.3.3), instead of bare. A key
	// with a comma or a quotation mark is always quoted: a server would read the bare form as another key.
	Quoted bool
	// Verbatim sends the key's bytes unchanged, also a comma or a quotation mark.
	Verbatim bool
	// MaxKey is the longest key that the API accepts, in bytes, from 1 to 255. Default 255.
	MaxKey int
	// Retention is the time for which the API remembers a key. Default 24 hours. A pending operation that is about
	// to reach that age is not sent again, since its key may be new to the API. The margin is an hour, or an
	// eighth of a Retention of less than 8 hours.
	Retention time.Duration
	// LifetimeHeader is a response header with the API's own retention, in seconds or as an ISO 8601 duration such as
	// PT30M. A shorter one than Retention replaces it in this client, but not in the next one. Default: none.
	LifetimeHeader string
	// Methods are the methods for which the client makes a key without an operation's name. Default POST and PATCH. A
	// named request, or one with its own key, is sent with that key by any method that is not safe.
	Methods []string
	// Statuses give the API's own meaning of a status of 400 to 499 whose response names no known code.
	Statuses map[int]taxonomy.Code
	// Codes give the meaning of the API's own error codes. They win over the common table of package taxonomy.
	Codes map[string]taxonomy.Code
	// ReplayMarkers are response headers, beside the common ones, that mark a replay.
	ReplayMarkers []string
	// ShouldRetry are the response headers whose value, true or false, decides about a retry. Default
	// taxonomy.DefaultDirectives; an empty slice reads none.
	ShouldRetry []string
	// TimeoutHeader is the request header with the client's remaining time in milliseconds. Default: none.
	TimeoutHeader string
	// FirstSentHeader is the request header with the time of the operation's first request, as an HTTP date. Default:
	// none.
	FirstSentHeader string
	// StoredHeaders are the request headers that change a request's meaning, beside Accept, Accept-Language,
	// Content-Type, Content-Encoding, Content-Language, If-Match, If-None-Match and Prefer. They are part of the
	// fingerprint and are stored for [Client.Resume]. Headers with credentials are refused.
	StoredHeaders []string
	// KeepHeaders stores all other headers without credentials too. They are not part of the fingerprint.
	KeepHeaders bool
	// AnyHeaders leaves every header out of the fingerprint. A call with other headers than the first one continues a
	// pending operation with the stored headers. It does not go together with StoredHeaders.
	AnyHeaders bool
	// Classifier changes the meaning of single responses. Default: none. That of [WithClassifier] is called after it.
	Classifier Classifier
}

// A Classifier returns the verdict on a response: v, or another one. body holds at most the first 64 KiB of the
// response's body. It is empty for an event stream and for any other response that the caller reads as it arrives. A
// Classifier must not read resp.Body. It is not called for lost responses. It can't make a payload mismatch or an
// expired key transient. A failure without a code keeps that of v, or gets PROVIDER.failure. A Classifier must be safe
// for concurrent use.
type Classifier func(resp *http.Response, body []byte, v taxonomy.Verdict) taxonomy.Verdict

// RedoProfile returns the default profile: redo's own contract. It has a bare key, a retention of 24 hours and the
// header X-Request-Timeout.
func RedoProfile() Profile {
	return Profile{Name: "redo", TimeoutHeader: wire.HeaderRequestTimeout}
}

// WithLifetime returns p with v as its Retention. Positive whole seconds and ISO 8601 durations such as PT30M are
// valid. It replaces a shorter Retention as well as a longer one. For any other v WithLifetime returns p and an error.
func (p Profile) WithLifetime(v string) (Profile, error) {
	d, ok := wire.Lifetime(v)
	if !ok {
		return p, fmt.Errorf("redo: profile %q: the lifetime is %.64q, it must be positive whole seconds or "+
			"an ISO 8601 duration such as PT30M", p.Name, v)
	}
	p.Retention = d
	return p, nil
}

// withDefaults fills the zero fields and puts header names into canonical form.
func (p Profile) withDefaults() Profile {
	p.Header = cmp.Or(p.Header, wire.HeaderKey)
	p.MaxKey = cmp.Or(p.MaxKey, wire.MaxKey)
	p.Retention = cmp.Or(p.Retention, 24*time.Hour)
	if p.Methods == nil {
		p.Methods = []string{http.MethodPost, http.MethodPatch}
	}
	if p.ShouldRetry == nil {
		p.ShouldRetry = taxonomy.DefaultDirectives
	}
	for _, name := range []*string{&p.Header, &p.TimeoutHeader, &p.FirstSentHeader, &p.LifetimeHeader} {
		*name = http.CanonicalHeaderKey(*name)
	}
	p.StoredHeaders = slices.Clone(p.StoredHeaders)
	for i, name := range p.StoredHeaders {
		p.StoredHeaders[i] = http.CanonicalHeaderKey(name)
	}
	return p
}

// validate refuses values that are out of range, contradict each other, or would store credentials.
func (p Profile) validate() error {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("redo: profile %q: %s", p.Name, fmt.Sprintf(format, args...))
	}
	names := wire.Names{
		Key: cmp.Or(p.Header, wire.HeaderKey), Timeout: p.TimeoutHeader, FirstSent: p.FirstSentHeader,
		Lifetime: p.LifetimeHeader, Stored: p.StoredHeaders, Read: slices.Concat(p.ReplayMarkers, p.ShouldRetry),
		Methods: p.Methods,
	}
	if err := names.Check(); err != nil {
		return bad("%v", err)
	}
	switch {
	case p.AnyHeaders && len(p.StoredHeaders) > 0:
		return bad("AnyHeaders and StoredHeaders contradict each other")
	case p.Quoted && p.Verbatim:
		return bad("Quoted and Verbatim contradict each other")
	case p.KeyInBody && p.NoKeys:
		return bad("KeyInBody and NoKeys contradict each other")
	case p.MaxKey < 0 || p.MaxKey > wire.MaxKey:
		return bad("MaxKey is %d, it must be from 1 to %d", p.MaxKey, wire.MaxKey)
	case p.Retention < 0:
		return bad("Retention is %v, it must be positive", p.Retention)
	}
	if err := decision.CheckCodes(p.Statuses, p.Codes); err != nil {
		return bad("%v", err)
	}
	return nil
}
