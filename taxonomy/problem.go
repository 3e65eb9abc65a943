package taxonomy

import (
	"bytes"
	"encoding/json"
	"mime"
	"net/http"
	"strings"
)

const (
	headerErrorCode = "Error-Code"

	// maxCode is the longest code that is believed; longer ones are no codes.
	maxCode = 128
	// maxDocument is the longest error body that is read for a code, so that the caller's bound on Body, or
	// the lack of one, never becomes a cost here.
	maxDocument = 64 << 10
)

// foreignCodes maps codes and types of other APIs to ours. Each names one meaning in the API that it comes
// from; what is ambiguous there is left to the status.
var foreignCodes = map[string]Code{
	// Codes that idempotency middleware and payment APIs share.
	"IDEMPOTENCY_CONFLICT":    PayloadMismatch,
	"MISSING_IDEMPOTENCY_KEY": KeyMissing,
	// Stripe: error.type of a key that was reused with other parameters.
	"idempotency_error": PayloadMismatch,
	// Stripe: error.code while the first request with the key is still running.
	"idempotency_key_in_use": InFlight,
	// Square: a key that was used before may only be repeated with the same request.
	"IDEMPOTENCY_KEY_REUSED": PayloadMismatch,
	// Echo's idempotency middleware: the request's fingerprint is not the recorded one.
	"idempotency_key_reused": PayloadMismatch,
	// AWS: a client token that was reused with other parameters; services spell the error with and without
	// "Exception".
	"IdempotentParameterMismatch":          PayloadMismatch,
	"IdempotentParameterMismatchException": PayloadMismatch,
}

// A statement is what the server itself said: its code, empty when it gave none that we can use, and whether
// the request can be retried, when it said so.
type statement struct {
	code      Code
	retryable *bool
}

// readStatement finds the server's code in the Error-Code header and in the body. A never-retried code wins
// over any other, then a known code over one of which only the family is known, then the header over the
// body.
func readStatement(h http.Header, body []byte) statement {
	s := readDocument(h, body)
	if header := serverCode(h.Get(headerErrorCode)); rank(header) > 0 && rank(header) >= rank(s.code) {
		s.code = header
	}
	return s
}

func rank(c Code) int {
	switch {
	case c == "":
		return 0
	case c.neverRetried():
		return 3
	case c.known():
		return 2
	default:
		return 1
	}
}

// serverCode returns the code that a server's word stands for, or the empty Code. A CALLER code is never
// believed: only the caller can say that the caller gave up.
func serverCode(word string) Code {
	word = strings.TrimSpace(word)
	if c, ok := foreignCodes[word]; ok {
		return c
	}
	if c := Code(word); isCode(c) && c.Family() != Caller {
		return c
	}
	return ""
}

// isCode reports whether c is FAMILY.name[.detail]… with a known family and names of ASCII letters, digits,
// hyphens and underscores.
func isCode(c Code) bool {
	if len(c) > maxCode {
		return false
	}
	family, name, _ := strings.Cut(string(c), ".")
	if _, ok := families[Code(family)]; !ok {
		return false
	}
	// A bare family has an empty name, which splits into one empty part.
	for part := range strings.SplitSeq(name, ".") {
		if part == "" {
			return false
		}
		for _, b := range []byte(part) {
			letter := b|0x20 >= 'a' && b|0x20 <= 'z'
			if !letter && (b < '0' || b > '9') && b != '_' && b != '-' {
				return false
			}
		}
	}
	return true
}

// readDocument reads a problem document (RFC 9457), {"error":{"code":…,"type":…}} or {"code":…}. A body that
// is not one JSON object, or whose media type says that it is none, says nothing. So does a field of an
// unexpected type, without spoiling the others.
func readDocument(h http.Header, body []byte) statement {
	if len(body) == 0 || len(body) > maxDocument {
		return statement{}
	}
	if !mayHoldStatement(body) {
		return statement{}
	}
	isJSON, isProblem := mediaType(h)
	if !isJSON {
		return statement{}
	}
	// Members are read as raw text first: their names match exactly, unlike a struct's fields, and one of the
	// wrong type stops nothing.
	var doc, inner map[string]json.RawMessage
	if json.Unmarshal(body, &doc) != nil {
		return statement{}
	}
	var s statement
	s.code = serverCode(text(doc["code"]))
	if json.Unmarshal(doc["error"], &inner) == nil {
		// Of one error, the code is more exact than the type: Stripe gives one type to both a reused key and a
		// key in use.
		for _, member := range [...]string{"code", "type"} {
			if c := serverCode(text(inner[member])); rank(c) > rank(s.code) && !s.code.known() {
				s.code = c
			}
		}
	}
	if isProblem {
		var retryable *bool
		if json.Unmarshal(doc["retryable"], &retryable) == nil {
			s.retryable = retryable
		}
	}
	return s
}

// mayHoldStatement tells most bodies apart that hold none without decoding them: the members' names are not there, and
// no escape could spell them.
func mayHoldStatement(body []byte) bool {
	for _, part := range [...]string{"code", "type", "retryable", `\`} {
		if bytes.Contains(body, []byte(part)) {
			return true
		}
	}
	return false
}

// mediaType reports whether the body is to be read as JSON, and whether as a problem document. Where no type
// is given at all, the body may be examined (RFC 9110, section 8.3).
func mediaType(h http.Header) (isJSON, isProblem bool) {
	given := h.Get("Content-Type")
	if given == "" {
		return true, false
	}
	// With a broken parameter the type itself is still returned.
	t, _, _ := mime.ParseMediaType(given)
	return t == "application/json" || t == "text/json" || strings.HasSuffix(t, "+json"), t == "application/problem+json"
}

// text returns a JSON string's value, or "" for anything else.
func text(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) != nil {
		return ""
	}
	return s
}
