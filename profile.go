package redo

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/redo-go/redo/internal/wire"
	"github.com/redo-go/redo/taxonomy"
)

// A Profile says how one provider speaks idempotency. Start from [RedoProfile], [IETFProfile] or
// [StripeProfile] and change what differs. Its zero value is not valid.
type Profile struct {
	// Name appears in errors.
	Name string
	// Header carries the key.
	Header string
	// Quoted sends the key as a structured-field string, "k" with the quotes (RFC 9651 §3.3.3), instead of bare. A
	// key that holds a comma or a quotation mark is quoted in any case: bare it would be read as another one.
	Quoted bool
	// Verbatim sends the key as it is, whatever its characters: the provider takes the header's bytes for the key.
	// Otherwise a key that can't be sent bare (one with a comma or a quote) is sent quoted.
	Verbatim bool
	// MaxKey is the longest key that the provider takes, in bytes, from 1 to 255.
	MaxKey int
	// Retention is for how long the provider is known to remember a key. A pending operation that is about as
	// old is never resent: to the provider its key may be new.
	Retention time.Duration
	// Methods are the methods whose requests get a key of their own. A request with an operation or a key of
	// its caller's gets it whatever the method, save for the safe ones.
	Methods []string
	// MismatchStatus and InFlightStatus, if not zero, are statuses that mean "same key, other payload" and
	// "same key, still running" when the body names no code.
	MismatchStatus, InFlightStatus int
	// ShouldRetry names the response headers whose true or false is the provider's word on retrying.
	ShouldRetry []string
	// TimeoutHeader tells the server how many milliseconds the client will still wait; empty sends none.
	TimeoutHeader string
	// StoredHeaders are the request headers that a pending operation keeps for [Client.Resume], beside Accept,
	// Accept-Language, Content-Type, Content-Encoding, Content-Language, If-Match, If-None-Match and Prefer.
	// Names that carry credentials are refused by New.
	StoredHeaders []string
}

// RedoProfile is redo's own contract, and the default: bare key, 24 hours, 409 with codes.
func RedoProfile() Profile {
	return Profile{
		Name:          "redo",
		Header:        wire.HeaderKey,
		MaxKey:        wire.MaxKey,
		Retention:     24 * time.Hour,
		Methods:       []string{http.MethodPost, http.MethodPatch},
		ShouldRetry:   taxonomy.DefaultDirectives,
		TimeoutHeader: wire.HeaderRequestTimeout,
	}
}

// IETFProfile follows draft-ietf-httpapi-idempotency-key-header-07: a quoted key (§2.1), 422 for another
// payload and 409 for a request that is still running (§2.7). The draft leaves the retention to the server
// (§2.3); set the one it publishes.
func IETFProfile() Profile {
	p := RedoProfile()
	p.Name = "ietf"
	p.Quoted = true
	p.MismatchStatus = http.StatusUnprocessableEntity
	p.InFlightStatus = http.StatusConflict
	p.TimeoutHeader = ""
	return p
}

// StripeProfile follows Stripe's documented behaviour: a bare key of up to 255 characters that is kept for at
// least 24 hours, 409 while the first request runs, idempotency_error in the body for another payload, and
// Stripe-Should-Retry.
func StripeProfile() Profile {
	p := RedoProfile()
	p.Name = "stripe"
	p.Verbatim = true
	p.InFlightStatus = http.StatusConflict
	p.ShouldRetry = []string{"Stripe-Should-Retry"}
	p.TimeoutHeader = ""
	p.StoredHeaders = []string{"Stripe-Version", "Stripe-Account", "Stripe-Context"}
	return p
}

// margin is how long before the end of the retention a key is no longer sent: clocks differ, and a request
// takes its time to arrive.
func (p Profile) margin() time.Duration { return min(time.Hour, p.Retention/8) }

func (p Profile) encode(key string) string {
	if p.Quoted || !p.Verbatim && wire.NeedsQuotes(key) {
		return wire.QuoteKey(key)
	}
	return key
}

// keyed reports whether a request with this method gets a key of its own.
func (p Profile) keyed(method string) bool {
	for _, m := range p.Methods {
		if m == method {
			return true
		}
	}
	return false
}

func (p Profile) statusCodes() map[int]taxonomy.Code {
	codes := map[int]taxonomy.Code{}
	if p.InFlightStatus != 0 {
		codes[p.InFlightStatus] = taxonomy.InFlight
	}
	if p.MismatchStatus != 0 {
		codes[p.MismatchStatus] = taxonomy.PayloadMismatch
	}
	return codes
}

func (p Profile) validate() error {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("redo: profile %q: %s", p.Name, fmt.Sprintf(format, args...))
	}
	switch {
	case !headerName(p.Header):
		return bad("the header is %q, it must be a header name", p.Header)
	case secretHeader(p.Header):
		return bad("the header %q carries credentials", p.Header)
	case p.TimeoutHeader != "" && !headerName(p.TimeoutHeader):
		return bad("the timeout header is %q, it must be a header name", p.TimeoutHeader)
	case strings.EqualFold(p.Header, p.TimeoutHeader):
		return bad("the key and the timeout are both to be sent as %q", p.Header)
	case p.Quoted && p.Verbatim:
		return bad("Quoted and Verbatim contradict each other")
	case p.MaxKey < 1 || p.MaxKey > wire.MaxKey:
		return bad("MaxKey is %d, it must be from 1 to %d", p.MaxKey, wire.MaxKey)
	case p.Retention <= 0:
		return bad("Retention is %v, it must be positive", p.Retention)
	case p.MismatchStatus != 0 && p.MismatchStatus == p.InFlightStatus:
		return bad("MismatchStatus and InFlightStatus are both %d", p.InFlightStatus)
	}
	for _, s := range []int{p.MismatchStatus, p.InFlightStatus} {
		if s != 0 && (s < 400 || s > 499) {
			return bad("status %d is not a client error", s)
		}
	}
	for _, m := range p.Methods {
		if safeMethod(m) {
			return bad("method %q is safe: it never gets a key", m)
		}
	}
	for _, h := range p.StoredHeaders {
		if secretHeader(h) {
			return bad("the header %q carries credentials: it is never stored", h)
		}
	}
	return nil
}

// headerName reports whether name is one: a token (RFC 9110 §5.6.2).
func headerName(name string) bool {
	return name != "" && !strings.ContainsFunc(name, func(r rune) bool {
		return r <= ' ' || r >= 0x7f || strings.ContainsRune("\"(),/:;<=>?@[\\]{}", r)
	})
}

// safeMethod reports whether the method is safe (RFC 9110 §9.2.1); the empty method is GET.
func safeMethod(m string) bool {
	switch m {
	case "", http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace:
		return true
	}
	return false
}
