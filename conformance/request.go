package conformance

import (
	"slices"
	"strconv"
	"strings"

	"github.com/redo-go/redo/internal/wire"
)

// field is one header line as written. It keeps the name's case, the order and the bytes of the value.
type field struct{ name, value string }

// request is a request as written to the connection.
type request struct {
	method string
	path   string // with the query, below the base URL
	fields []field
	body   []byte

	key     string // the key, if it is in the body
	chunked bool   // the body is sent in chunks, without its length
}

// encode returns the request's bytes. Each request has its own connection, so it requests that the server close the
// connection.
func (r request) encode(host, prefix string) []byte {
	var b []byte
	b = append(b, r.method+" "+prefix+r.path+" HTTP/1.1\r\nHost: "+host+"\r\n"...)
	for _, f := range r.fields {
		b = append(b, f.name+": "+f.value+"\r\n"...)
	}
	if r.chunked {
		b = append(b, "Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n"...)
		half := len(r.body) / 2
		for _, part := range [][]byte{r.body[:half], r.body[half:]} {
			if len(part) > 0 { // an empty chunk is the last one
				b = append(b, strconv.FormatInt(int64(len(part)), 16)+"\r\n"...)
				b = append(append(b, part...), "\r\n"...)
			}
		}
		return append(b, "0\r\n\r\n"...)
	}
	// An empty body needs a length if the method gives a body a meaning (RFC 9110 section 8.6). The methods without
	// such a meaning are the safe ones except QUERY.
	if len(r.body) > 0 || !wire.SafeMethod(r.method) || r.method == wire.MethodQuery {
		b = append(b, "Content-Length: "+strconv.Itoa(len(r.body))+"\r\n"...)
	}
	b = append(b, "Connection: close\r\n\r\n"...)
	return append(b, r.body...)
}

// with returns the request with one more header line.
func (r request) with(name, value string) request {
	r.fields = append(slices.Clone(r.fields), field{name, value})
	return r
}

// without returns the request without a header.
func (r request) without(name string) request {
	r.fields = slices.DeleteFunc(slices.Clone(r.fields), func(f field) bool { return strings.EqualFold(f.name, name) })
	return r
}

// has reports whether the request has a header that is not empty.
func (r request) has(name string) bool {
	return slices.ContainsFunc(r.fields, func(f field) bool { return strings.EqualFold(f.name, name) && f.value != "" })
}

// set returns the request with a header that replaces all others of the same name.
func (r request) set(name, value string) request { return r.without(name).with(name, value) }

// plus returns the request with more headers. It keeps those that it has.
func (r request) plus(fields []field) request {
	for _, f := range fields {
		if !r.has(f.name) {
			r = r.with(f.name, f.value)
		}
	}
	return r
}

// withQuery returns the request with one more parameter in its query.
func (r request) withQuery(parameter string) request {
	separator := "?"
	if strings.Contains(r.path, "?") {
		separator = "&"
	}
	r.path += separator + parameter
	return r
}
