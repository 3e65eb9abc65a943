package journal

import (
	"fmt"
	"io"
	"maps"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/redo-go/redo/internal/wire"
	"github.com/redo-go/redo/store"
)

// alwaysStored are the request headers that change a request's meaning and carry no credentials.
var alwaysStored = []string{
	"Accept", "Accept-Language", "Content-Type", "Content-Encoding", "Content-Language", "If-Match",
	"If-None-Match", "Prefer",
}

// unimportant are the request headers that change no request's meaning, beside those of one hop, one request or one
// trace.
var unimportant = []string{
	"Accept-Encoding", "User-Agent", "Referer", "Origin", "Expect", "Cache-Control", "Pragma", "Priority",
	"Forwarded", "Via", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", // a proxy's
}

// Rules name the headers of one API, in canonical form.
type Rules struct {
	Stored []string // change a request's meaning, beside the common ones
	Own    []string // are set by the client itself, and change no meaning
	Keep   bool     // all others without credentials are stored too, and change no meaning
	Any    bool     // none changes the meaning
}

// Replaces reports whether a stored request has the header, or deliberately has none of that name.
func (r Rules) Replaces(name string) bool { return r.Any && slices.Contains(alwaysStored, name) }

// A Description holds the parts of a request that give it its meaning, without credentials. Make it with
// [Rules.Describe].
type Description struct {
	method, origin, host string
	any                  bool        // no header is part of the fingerprint
	url                  url.URL     // without credentials
	secret               bool        // the URL's query had credentials
	header               http.Header // to be stored, part of the fingerprint; nil if there is none
	kept                 http.Header // to be stored, not part of the fingerprint; nil if there is none
	dropped              []string    // headers that are not stored and may change the meaning
}

// Describe returns the description of req.
func (r Rules) Describe(req *http.Request) Description {
	d := Description{method: req.Method, origin: req.URL.Scheme + "://" + req.URL.Host, host: req.Host, any: r.Any}
	d.url, d.secret = wire.WithoutCredentials(req.URL)
	for _, name := range slices.Sorted(maps.Keys(req.Header)) { // one order for several spellings of a name
		canonical, values := http.CanonicalHeaderKey(name), req.Header[name]
		switch {
		case slices.Contains(alwaysStored, canonical), slices.Contains(r.Stored, canonical):
			d.header = with(d.header, canonical, values)
		case slices.Contains(r.Own, canonical), slices.Contains(unimportant, canonical), !wire.Replayable(canonical):
		case r.Keep && !wire.CredentialHeader(canonical):
			d.kept = with(d.kept, canonical, values)
		default:
			d.dropped = append(d.dropped, canonical)
		}
	}
	for name := range req.Trailer {
		d.dropped = append(d.dropped, http.CanonicalHeaderKey(name)) // their values come with the body
	}
	slices.Sort(d.dropped)
	if req.URL.User != nil && !slices.Contains(d.dropped, "Authorization") {
		d.dropped = append(d.dropped, "Authorization") // net/http makes it of the URL's user
	}
	return d
}

// with adds values to h, which it makes if it is nil. It changes no slice of the request.
func with(h http.Header, name string, values []string) http.Header {
	if h == nil {
		h = http.Header{}
	}
	if old := h[name]; old != nil {
		values = slices.Concat(old, values)
	}
	h[name] = values
	return h
}

// Request returns the stored form of the described request. whole is true if body is its whole body.
func (d Description) Request(key string, body []byte, whole bool) Request {
	r := Request{
		Version: Version, Key: key, Method: d.method, URL: d.url.String(), Host: d.host, Header: d.header,
		Dropped: d.dropped,
	}
	if d.kept != nil {
		r.Header = maps.Clone(d.kept)
		for name, values := range d.header {
			r.Header[name] = values
		}
	}
	text := utf8.ValidString(r.URL) && utf8.ValidString(r.Host)
	for _, v := range r.Header {
		text = text && !slices.ContainsFunc(v, func(s string) bool { return !utf8.ValidString(s) })
	}
	// JSON replaces bytes that are not UTF-8, so that another request than the first would be resumed.
	// An opaque URL has no text that can be parsed again.
	if r.Whole = whole && text && !d.secret && d.url.Opaque == ""; r.Whole {
		r.Body = body
	}
	return r
}

// Fingerprint returns the hash of the described request: method, origin, host, path, query, stored headers and payload.
func (d Description) Fingerprint(payload io.Reader) (store.Fingerprint, error) {
	path := d.url.EscapedPath()
	if d.url.Opaque != "" {
		path = d.url.Opaque // net/http sends it instead
	}
	if d.host != "" && !strings.EqualFold(d.host, d.url.Host) {
		path += "\nHost: " + strings.ToLower(d.host) // a virtual host of the origin
	}
	return store.RawReader(d.method, d.origin+path+d.headerText(), d.url.RawQuery, payload)
}

// headerText returns the stored headers as text for the fingerprint, empty if there are none. It leaves out the
// boundary of a multipart body, which differs on each call.
func (d Description) headerText() string {
	var b strings.Builder
	if d.any {
		return ""
	}
	for _, name := range slices.Sorted(maps.Keys(d.header)) {
		for _, v := range d.header[name] {
			if name == "Content-Type" {
				v = withoutBoundary(v)
			}
			fmt.Fprintf(&b, "\n%s: %s", name, v)
		}
	}
	return b.String()
}

func withoutBoundary(contentType string) string {
	mediaType, params, err := mime.ParseMediaType(contentType)
	if err != nil || params["boundary"] == "" {
		return contentType
	}
	delete(params, "boundary")
	return mime.FormatMediaType(mediaType, params)
}
