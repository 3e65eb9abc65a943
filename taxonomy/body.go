package taxonomy

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"encoding/xml"
	"io"
	"mime"
	"net/http"
	"strings"
)

const (
	// maxDocument is the length of the longest error body that is read for words. It bounds the cost when the
	// caller's own bound on Body is larger, or when there is none.
	maxDocument = 64 << 10
	// maxTokens is the number of XML tokens that are read for an error's code. The known documents have it among
	// the first ten.
	maxTokens = 64
	// adyenErrorCode qualifies a number in the member errorCode: a bare number means something else in each API.
	adyenErrorCode = "errorCode="
)

// readBody reads the words of an error body: one JSON object, or an XML document of an AWS query service. Either may
// have the content coding gzip. A body of another type, an incomplete one, or one of over 64 KiB is ignored.
func (r *reader) readBody(h http.Header, body []byte) {
	if body = unpacked(h, body); len(body) > maxDocument {
		return
	}
	format := bodyFormat(h)
	switch first := bytes.TrimLeft(body, " \t\r\n"); {
	case len(first) == 0:
	case first[0] == '{' && format.json:
		r.readJSON(body, format.problem)
	case first[0] == '<' && format.xml:
		r.readXML(body)
	}
}

// unpacked returns the body without the content coding gzip. It returns nil for a body that it can't unpack. net/http
// removes the coding and its header itself, unless the caller has set Accept-Encoding, as some SDKs do.
func unpacked(h http.Header, body []byte) []byte {
	coding := h.Get("Content-Encoding")
	if len(body) == 0 || !strings.EqualFold(coding, "gzip") && !strings.EqualFold(coding, "x-gzip") {
		return body
	}
	z, err := gzip.NewReader(bytes.NewReader(body))
	if err != nil {
		return nil
	}
	plain, err := io.ReadAll(io.LimitReader(z, maxDocument+1))
	if err != nil {
		return nil
	}
	return plain
}

// A format holds how a body may be read.
type format struct{ json, xml, problem bool }

// bodyFormat returns the format that the Content-Type allows. Without a Content-Type the body may be examined
// (RFC 9110, section 8.3), so both JSON and XML are allowed.
func bodyFormat(h http.Header) format {
	given := h.Get("Content-Type")
	if given == "" {
		return format{json: true, xml: true}
	}
	// With a broken parameter the type itself is still returned.
	t, _, _ := mime.ParseMediaType(given)
	switch {
	case t == "application/problem+json":
		return format{json: true, problem: true}
	case t == "application/json", t == "text/json", strings.HasSuffix(t, "+json"),
		t == "application/x-amz-json-1.0", t == "application/x-amz-json-1.1":
		return format{json: true}
	case t == "application/xml", t == "text/xml", strings.HasSuffix(t, "+xml") && t != "application/xhtml+xml":
		return format{xml: true}
	}
	return format{}
}

// An object holds the members of a JSON object as raw text. Member names match exactly, unlike a struct's fields,
// and a member of the wrong type does not affect the others.
type object map[string]json.RawMessage

// readJSON reads the members that APIs put their words in, the more exact ones first.
func (r *reader) readJSON(body []byte, problem bool) {
	var doc object
	if json.Unmarshal(body, &doc) != nil {
		return
	}
	r.read(wordOf(doc["code"]))
	r.readError(doc["error"])
	r.readErrors(doc["errors"])
	if code := wordOf(doc["errorCode"]); code != "" {
		r.read(code)
		r.read(adyenErrorCode + code)
	}
	r.read(wordOf(doc["error_code"]))
	r.read(wordOf(doc["__type"]))
	r.read(wordOf(firstOf(doc["details"])["issue"]))
	r.read(wordOf(doc["name"]))
	r.read(wordOf(doc["errorType"]))
	r.read(wordOf(doc["type"]))

	// The state of an operation is no code, but it can contradict "nothing was applied".
	for _, member := range [...]string{"status", "state"} {
		r.unsettled = r.unsettled || isUnsettled(wordOf(doc[member]))
	}
	if problem && doc["retryable"] != nil {
		var retryable *bool
		if json.Unmarshal(doc["retryable"], &retryable) == nil {
			r.retryable = retryable
		}
	}
}

// readError reads the member "error": an object, or a word.
func (r *reader) readError(raw json.RawMessage) {
	inner, ok := objectOf(raw)
	if !ok {
		r.read(wordOf(raw))
		return
	}
	// The code is more exact than the type: Stripe has one type for a reused key and for a key in use.
	r.read(wordOf(inner["code"]))
	r.read(wordOf(firstOf(inner["errors"])["reason"]))
	r.read(wordOf(inner["status"]))
	r.read(wordOf(inner["type"]))
}

// readErrors reads the member "errors": a list, of which the first counts, or one object.
func (r *reader) readErrors(raw json.RawMessage) {
	inner, ok := objectOf(raw)
	if !ok {
		inner = firstOf(raw)
	}
	r.read(wordOf(inner["code"]))
	r.read(wordOf(inner["reason"]))
	r.read(wordOf(inner["type"]))
	r.read(wordOf(inner["category"]))
}

// objectOf decodes a JSON object. It returns false for any other value, null included.
func objectOf(raw json.RawMessage) (object, bool) {
	if len(raw) == 0 || raw[0] != '{' { // most members are absent
		return nil, false
	}
	var o object
	err := json.Unmarshal(raw, &o)
	return o, err == nil && o != nil
}

// firstOf returns the first element of a JSON list of objects, or nil.
func firstOf(raw json.RawMessage) object {
	if len(raw) == 0 || raw[0] != '[' {
		return nil
	}
	var list []json.RawMessage
	if json.Unmarshal(raw, &list) != nil || len(list) == 0 {
		return nil
	}
	o, _ := objectOf(list[0])
	return o
}

// wordOf returns the text of a JSON string or of a whole number, and "" for any other value.
func wordOf(raw json.RawMessage) string {
	if len(raw) == 0 {
		return ""
	}
	if raw[0] == '"' && bytes.IndexByte(raw, '\\') < 0 { // a string without escapes is its own text
		return strings.TrimSpace(string(raw[1 : len(raw)-1]))
	}
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return strings.TrimSpace(s)
	}
	for _, b := range raw {
		if b < '0' || b > '9' {
			return ""
		}
	}
	return string(raw)
}

// readXML reads the Code in the first Error element. EC2 wraps it in Response and Errors, other query services in
// ErrorResponse, and S3 has it as the root.
func (r *reader) readXML(body []byte) {
	d := xml.NewDecoder(bytes.NewReader(body))
	// The words are ASCII, so a declared charset doesn't matter.
	d.CharsetReader = func(_ string, in io.Reader) (io.Reader, error) { return in, nil }
	var open []string
	for range maxTokens {
		token, err := d.RawToken()
		if err != nil {
			return
		}
		switch t := token.(type) {
		case xml.StartElement:
			open = append(open, t.Name.Local)
		case xml.EndElement:
			if len(open) == 0 || t.Name.Local == "Error" {
				return
			}
			open = open[:len(open)-1]
		case xml.CharData:
			if n := len(open); n >= 2 && open[n-1] == "Code" && open[n-2] == "Error" {
				r.read(strings.TrimSpace(string(t)))
				return
			}
		}
	}
}
