package store

import (
	"bytes"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// ErrNotJSON is wrapped by every error of [CanonicalJSON]: the body is not JSON, or is JSON without a single
// canonical form. A server responds with 400, or falls back to [Raw].
var ErrNotJSON = errors.New("store: body has no canonical JSON form")

// MaxJSONDepth is the greatest depth to which arrays and objects may nest for [CanonicalJSON].
const MaxJSONDepth = 128

// CanonicalJSON returns the fingerprint over method, path, query and the canonical form of a JSON body. A body that
// was marshalled again, with other white space, another order of members or other escapes, has the same fingerprint.
// Its version is [CanonicalJSONV1], so it never equals one of [Raw].
//
// The form is that of RFC 8785, except that numbers keep their text. So 9007199254740993 differs from
// 9007199254740992, and 1.0 from 1, although many decoders can't tell them apart. The error wraps [ErrNotJSON] for
// duplicate member names (it names the member), invalid UTF-8, lone surrogates, data after the value, and nesting
// deeper than [MaxJSONDepth]. An empty body is allowed. A body of white space alone is not.
func CanonicalJSON(method, path, query string, body []byte) (Fingerprint, error) {
	if len(body) == 0 {
		return sum(CanonicalJSONV1, method, path, query, nil), nil
	}
	canonical, err := canonicalForm(body)
	if err != nil {
		return Fingerprint{}, fmt.Errorf("%w: %w", ErrNotJSON, err)
	}
	return sum(CanonicalJSONV1, method, path, query, canonical), nil
}

// Reasons to refuse a body. The last two are valid by JSON's grammar, and so is a lone surrogate.
var (
	errSyntax    = errors.New("invalid JSON or a lone surrogate")
	errEncoding  = errors.New("invalid UTF-8")
	errDuplicate = errors.New("duplicate member")
	errDepth     = errors.New("nested too deep")
)

// canonicalForm returns the canonical form of a body. An error quotes no more of the body than a member's name.
func canonicalForm(body []byte) ([]byte, error) {
	if !utf8.Valid(body) {
		return nil, errEncoding
	}
	if depth(body) > MaxJSONDepth {
		return nil, fmt.Errorf("%w: more than %d levels", errDepth, MaxJSONDepth)
	}
	form := jsontext.Value(bytes.Clone(body))
	err := form.Canonicalize(jsontext.CanonicalizeRawInts(false), jsontext.CanonicalizeRawFloats(false))
	if err == nil {
		return form, nil
	}
	e, ok := errors.AsType[*jsontext.SyntacticError](err)
	switch {
	case !ok:
		return nil, errSyntax
	case errors.Is(err, jsontext.ErrDuplicateName):
		return nil, fmt.Errorf("%w: %.64q at byte %d", errDuplicate, e.JSONPointer.LastToken(), e.ByteOffset)
	default:
		return nil, fmt.Errorf("%w: at byte %d", errSyntax, e.ByteOffset)
	}
}

// depth returns how deep the arrays and objects of a JSON text nest.
func depth(text []byte) int {
	deepest, open, quoted := 0, 0, false
	for i := 0; i < len(text); i++ {
		switch b := text[i]; {
		case quoted && b == '\\':
			i++ // the next byte ends no string
		case b == '"':
			quoted = !quoted
		case quoted:
		case b == '{' || b == '[':
			open++
			deepest = max(deepest, open)
		case b == '}' || b == ']':
			open--
		}
	}
	return deepest
}
