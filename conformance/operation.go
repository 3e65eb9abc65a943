package conformance

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/redo-go/redo/internal/wire"
)

// Operation is a request of the target's API. Path, header values and body are templates: see [Target].
//
// A variant of the target's main operation inherits the fields that it omits. Its method, path and body replace
// those of the main operation, and its headers are added. A method without an effect inherits no body.
type Operation struct {
	Method string `json:"method,omitempty"`
	// Path starts with a slash and may have a query. It is appended to the target's base URL.
	Path    string            `json:"path,omitempty"`
	Headers map[string]string `json:"headers,omitempty"`
	Body    Body              `json:"body,omitempty"`
	// Effects counts the effects of a variant that Target.Effects does not count. It is by URL or command, and has
	// {{case}} if Target.Effects has it. Operations may share a counter.
	Effects *Effects `json:"effects,omitempty"`
}

// Body is the template of a request's body. A JSON string is sent unchanged. Any other JSON value is sent as JSON
// without white space.
type Body string

// UnmarshalJSON implements json.Unmarshaler.
func (b *Body) UnmarshalJSON(raw []byte) error {
	if len(raw) > 0 && raw[0] == '"' {
		var s string
		if err := json.Unmarshal(raw, &s); err != nil {
			return err
		}
		*b = Body(s)
		return nil
	}
	if string(raw) == "null" {
		*b = ""
		return nil
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, raw); err != nil {
		return err
	}
	*b = Body(compact.String())
	return nil
}

// over returns the operation, with omitted fields taken from base.
func (o Operation) over(base Operation) Operation {
	if o.Method == "" {
		o.Method = base.Method
	}
	if o.Path == "" {
		o.Path = base.Path
	}
	// A QUERY may have a body, but not that of the main operation, which requests an effect.
	if o.Body == "" && !wire.SafeMethod(o.Method) {
		o.Body = base.Body
	}
	headers := map[string]string{}
	for _, set := range []map[string]string{base.Headers, o.Headers} {
		for name, value := range set {
			// Header names are case-insensitive, so the variant's spelling replaces the other one.
			maps.DeleteFunc(headers, func(other, _ string) bool { return strings.EqualFold(other, name) })
			headers[name] = value
		}
	}
	o.Headers = headers
	return o
}

// without returns the operation without the headers of a variant. These headers trigger the variant.
func (o Operation) without(trigger map[string]string) Operation {
	o.Headers = maps.Clone(o.Headers)
	for name := range trigger {
		delete(o.Headers, name)
	}
	return o
}

// has reports whether the operation sets a header.
func (o Operation) has(header string) bool {
	for name := range o.Headers {
		if strings.EqualFold(name, header) {
			return true
		}
	}
	return false
}

// uses reports whether the path or body contains one of the variables. Path and body are the request's payload.
func (o Operation) uses(names ...string) bool {
	return uses(o.Path, names...) || uses(string(o.Body), names...)
}

// validate checks an operation whose templates may use the known variables.
func (o Operation) validate(known []string, keyHeader string) error {
	var wrong FieldErrors
	wrong.check(wire.Token(o.Method), "method", "%q is no HTTP method", o.Method)
	unprintable := func(r rune) bool { return r < '!' || r > '~' }
	wrong.check(strings.HasPrefix(o.Path, "/") && !strings.ContainsFunc(o.Path, unprintable), "path",
		"%q must start with a slash and be printable ASCII without spaces", o.Path)
	wrong.add("path", validateTemplate(o.Path, known))
	wrong.add("body", validateTemplate(string(o.Body), known))
	for _, name := range sortedKeys(o.Headers) {
		wrong.add("headers."+name, validateTemplate(o.Headers[name], known))
	}
	wrong.add("headers", validateHeaders(o.Headers))
	wrong.check(!o.has(keyHeader), "headers", "the header %s is the harness's own to set", keyHeader)
	return wrong.err()
}

func validateHeaders(headers map[string]string) error {
	var wrong FieldErrors
	for _, name := range sortedKeys(headers) {
		wrong.check(wire.Token(name), "", "%q is no header name", name)
		wrong.check(!slices.ContainsFunc(framing, func(f string) bool { return strings.EqualFold(f, name) }), "",
			"the header %s is the harness's own to set", name)
		// The error omits the value, which may be a secret.
		wrong.check(!strings.ContainsAny(headers[name], "\r\n\x00"), "", "the value of the header %s has a line break",
			name)
	}
	return wrong.err()
}

// framing lists the headers that set a message's length or destination.
var framing = []string{"Host", "Content-Length", "Transfer-Encoding", "Connection"}

// String identifies an operation. Two operations with the same text send the same requests.
func (o Operation) String() string {
	texts := []string{o.Method, o.Path, string(o.Body)}
	for _, name := range sortedKeys(o.Headers) {
		texts = append(texts, name, o.Headers[name])
	}
	return strings.Join(texts, "\x00")
}
