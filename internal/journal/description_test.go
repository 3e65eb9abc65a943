package journal

import (
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/internal/wire"
	"github.com/redo-go/redo/store"
)

func TestStorable(t *testing.T) {
	const secret = "hunter2"
	build := func(t *testing.T) *http.Request {
		req, err := http.NewRequest(http.MethodPost, "https://user:"+secret+"@bank.test/a%2Fb?x=1&y=2#part",
			strings.NewReader("1000"))
		require.NoError(t, err)
		req.Host = "front.test"
		for name, value := range map[string]string{
			"Accept": "*/*", "Accept-Language": "de", "Content-Type": "text/plain", "Content-Encoding": "identity",
			"Content-Language": "en", "If-Match": `"x"`, "If-None-Match": "*", "Prefer": "respond-async",
			"Stripe-Version": "2026-01-01",
			"X-Other":        "left out", "Authorization": "Bearer " + secret, "Cookie": secret, "X-Api-Key": secret,
			"X-Auth-Token":    secret,
			"Idempotency-Key": "k0",
		} {
			req.Header.Set(name, value)
		}
		return req
	}
	whole := Request{
		Version: 1, Key: "k1", Method: "POST", URL: "https://bank.test/a%2Fb?x=1&y=2", Host: "front.test",
		Body: []byte("1000"), Whole: true,
		Header: http.Header{
			"Accept": {"*/*"}, "Accept-Language": {"de"}, "Content-Type": {"text/plain"},
			"Content-Encoding": {"identity"},
			"Content-Language": {"en"}, "If-Match": {`"x"`}, "If-None-Match": {"*"}, "Prefer": {"respond-async"},
			"Stripe-Version": {"2026-01-01"},
		},
		Dropped: []string{"Authorization", "Cookie", "X-Api-Key", "X-Auth-Token", "X-Other"},
	}
	stripe := &Rules{Stored: []string{"Stripe-Version"}, Own: []string{"Idempotency-Key"}}
	for _, c := range []struct {
		name   string
		rules  *Rules // nil: those of the API whose version is stored
		change func(*http.Request)
		body   []byte
		whole  bool
		want   func(*Request)
	}{
		{"a whole request", nil, nil, []byte("1000"), true, func(*Request) {}},
		{"a body over the cap is left out", nil, nil, nil, false, func(s *Request) { s.Body, s.Whole = nil, false }},
		{"no body", nil, func(r *http.Request) { r.Body = nil }, nil, true, func(s *Request) { s.Body = nil }},
		{
			"no headers", nil, func(r *http.Request) { r.Header, r.URL.User = http.Header{}, nil },
			[]byte("1000"), true, func(s *Request) {
				s.Header, s.Dropped = nil, nil
			},
		},
		{
			"the profile names further headers to keep", &Rules{Own: []string{"Idempotency-Key"}}, nil,
			[]byte("1000"), true, func(s *Request) {
				delete(s.Header, "Stripe-Version")
				s.Dropped = []string{
					"Authorization", "Cookie", "Stripe-Version", "X-Api-Key", "X-Auth-Token", "X-Other",
				}
			},
		},
		{
			"credentials in the query", nil, func(r *http.Request) { r.URL.RawQuery = "x=1&token=" + secret + "&y=2" },
			[]byte("1000"), true, func(s *Request) {
				s.Body, s.Whole = nil, false // the URL is not the request's any more
			},
		},
		// JSON would replace the bytes, and a resumed request would be another one.
		{
			"a header that is no text can't be resumed", nil, func(r *http.Request) { r.Header.Set("Prefer", "\xff") },
			[]byte("1000"), true, func(s *Request) {
				s.Header["Prefer"], s.Body, s.Whole = []string{"\xff"}, nil, false
			},
		},
		{
			"a query that is no text can't be resumed", nil, func(r *http.Request) { r.URL.RawQuery = "\xff" },
			[]byte("1000"), true, func(s *Request) {
				s.URL, s.Body, s.Whole = "https://bank.test/a%2Fb?\xff", nil, false
			},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			rules := c.rules
			if rules == nil {
				rules = stripe
			}
			req := build(t)
			if c.change != nil {
				c.change(req)
			}
			want := whole
			want.Header = whole.Header.Clone()
			c.want(&want)
			got := rules.Describe(req).Request("k1", c.body, c.whole)
			require.Equal(t, want, got)
			text := got.Encode()
			require.NotContains(t, string(text), secret)
			require.NotContains(t, string(text), "user")
		})
	}
}

func TestWhatIsAlwaysStoredHoldsNoCredentials(t *testing.T) {
	for _, name := range alwaysStored {
		require.False(t, wire.CredentialHeader(name), name)
		require.Equal(t, name, http.CanonicalHeaderKey(name), "it is looked up in canonical form")
	}
	for _, name := range unimportant {
		require.False(t, wire.CredentialHeader(name), name)
		require.Equal(t, name, http.CanonicalHeaderKey(name), "it is looked up in canonical form")
	}
}

func TestMeaning(t *testing.T) {
	rules := Rules{Own: []string{"X-Key", "X-Left", "X-First"}, Stored: []string{"Acme-Version"}}
	d := rules.Describe(&http.Request{URL: &url.URL{}, Header: http.Header{
		"Accept": {"a"}, "content-type": {"b"}, "ACME-Version": {"c"}, // stored
		// No meaning.
		"X-Key": {"k1"}, "X-Left": {"1"}, "x-first": {"now"}, "User-Agent": {"u"}, "Accept-Encoding": {"gzip"},
		// Of one request or one hop.
		"X-Request-Id": {"r"}, "Traceparent": {"t"}, "Connection": {"close"}, "Te": {"trailers"},
		"Cookie": {"c"}, "x-other": {"o"}, "Authorization": {"a"}, "Idempotency-Key": {"not this API's key"}, // dropped
	}})
	require.Equal(t, http.Header{"Accept": {"a"}, "Content-Type": {"b"}, "Acme-Version": {"c"}}, d.header)
	require.Equal(t, []string{"Authorization", "Cookie", "Idempotency-Key", "X-Other"}, d.dropped)
}

// net/http makes an Authorization header of a URL's user. The stored URL has none.
func TestARequestWithAPasswordInItsURLNeedsCredentials(t *testing.T) {
	for target, want := range map[string][]string{
		"https://bank.test/":              nil,
		"https://user:hunter2@bank.test/": {"Authorization"},
		"https://user@bank.test/":         {"Authorization"},
	} {
		req, err := http.NewRequest(http.MethodPost, target, nil)
		require.NoError(t, err)
		require.Equal(t, want, Rules{}.Describe(req).Request("k1", nil, true).Dropped, target)
		req.SetBasicAuth("user", "hunter2")
		require.Equal(t, []string{"Authorization"}, Rules{}.Describe(req).Request("k1", nil, true).Dropped, "once")
	}
}

// fingerprintOf is the fingerprint of a POST of 1000 to https://bank.test/refunds?x=1, after change.
func fingerprintOf(t *testing.T, change func(*http.Request)) store.Fingerprint {
	t.Helper()
	rules := Rules{Stored: []string{"Acme-Version"}, Own: []string{"Idempotency-Key"}}
	req, err := http.NewRequest(http.MethodPost, "https://bank.test/refunds?x=1", strings.NewReader("1000"))
	require.NoError(t, err)
	req.Header.Set("Content-Type", "text/plain")
	change(req)
	payload := req.Body
	if payload == nil {
		payload = http.NoBody
	}
	f, err := rules.Describe(req).Fingerprint(payload)
	require.NoError(t, err)
	return f
}

func body(r *http.Request, s string) {
	with, _ := http.NewRequest(http.MethodPost, "https://bank.test", strings.NewReader(s))
	r.Body, r.GetBody, r.ContentLength = with.Body, with.GetBody, with.ContentLength
}

func TestTheFingerprintHasAllThatChangesTheMeaning(t *testing.T) {
	same := fingerprintOf(t, func(*http.Request) {})
	changes := map[string]func(*http.Request){
		"the method":          func(r *http.Request) { r.Method = "PUT" },
		"the scheme":          func(r *http.Request) { r.URL.Scheme = "http" },
		"the host":            func(r *http.Request) { r.URL.Host = "shop.test" },
		"the virtual host":    func(r *http.Request) { r.Host = "shop.bank.test" },
		"an opaque URL":       func(r *http.Request) { r.URL.Opaque = "/refunds/1" },
		"another opaque URL":  func(r *http.Request) { r.URL.Opaque = "/refunds/2" },
		"the path":            func(r *http.Request) { r.URL.Path = "/charges" },
		"an escape":           func(r *http.Request) { r.URL.Path, r.URL.RawPath = "/re/funds", "/re%2Ffunds" },
		"the query":           func(r *http.Request) { r.URL.RawQuery = "x=2" },
		"the query's order":   func(r *http.Request) { r.URL.RawQuery = "y=1&x=1" },
		"the query's order 2": func(r *http.Request) { r.URL.RawQuery = "x=1&y=1" },
		"the body":            func(r *http.Request) { body(r, "1001") },
		"no body":             func(r *http.Request) { r.Body, r.GetBody = nil, nil },
		"the content's type":  func(r *http.Request) { r.Header.Set("Content-Type", "text/html") },
		"a precondition":      func(r *http.Request) { r.Header.Set("If-Match", "x") },
		"the API's version":   func(r *http.Request) { r.Header.Set("Acme-Version", "2") },
		"another version":     func(r *http.Request) { r.Header.Set("Acme-Version", "3") },
		"a second version":    func(r *http.Request) { r.Header["Acme-Version"] = []string{"2", "3"} },
	}
	seen := map[store.Fingerprint]string{same: "nothing"}
	for _, name := range slices.Sorted(maps.Keys(changes)) {
		f := fingerprintOf(t, changes[name])
		require.Empty(t, seen[f], "%s gives the same fingerprint", name)
		seen[f] = name
	}
}

// The twin of the test above.
func TestTheFingerprintHasNothingElse(t *testing.T) {
	same := fingerprintOf(t, func(*http.Request) {})
	for name, change := range map[string]func(*http.Request){
		"a refreshed token":           func(r *http.Request) { r.Header.Set("Authorization", "Bearer 2") },
		"a trace":                     func(r *http.Request) { r.Header.Set("Traceparent", "00-1") },
		"the client's name":           func(r *http.Request) { r.Header.Set("User-Agent", "v2") },
		"a header that is not stored": func(r *http.Request) { r.Header.Set("X-Other", "o") },
		"the key":                     func(r *http.Request) { r.Header.Set("Idempotency-Key", "k2") },
		"a token in the query":        func(r *http.Request) { r.URL.RawQuery = "x=1&access_token=2" },
		"a signature before the rest": func(r *http.Request) { r.URL.RawQuery = "X-Amz-Signature=2&x=1" },
		"a password":                  func(r *http.Request) { r.URL.User = url.UserPassword("user", "hunter2") },
		"a fragment":                  func(r *http.Request) { r.URL.Fragment = "part" },
		"another reader of the body":  func(r *http.Request) { body(r, "1000") },
		"the case of a header's name": func(r *http.Request) {
			r.Header = http.Header{"content-type": {"text/plain"}}
		},
		"an empty Host, which is the URL": func(r *http.Request) { r.Host = "" },
		"a trailer, which the body sets":  func(r *http.Request) { r.Trailer = http.Header{"X-Sum": nil} },
	} {
		require.Equal(t, same, fingerprintOf(t, change), name)
	}
	t.Run("a multipart boundary", func(t *testing.T) {
		of := func(contentType string) store.Fingerprint {
			return fingerprintOf(t, func(r *http.Request) { r.Header.Set("Content-Type", contentType) })
		}
		require.Equal(t, of("multipart/form-data; boundary=a"), of("multipart/form-data; boundary=b"))
		require.NotEqual(t, of("multipart/form-data; boundary=a"), of("multipart/mixed; boundary=a"))
		accepting := func(accept string) store.Fingerprint {
			return fingerprintOf(t, func(r *http.Request) { r.Header.Set("Accept", accept) })
		}
		require.NotEqual(t, accepting("text/plain; boundary=a"), accepting("text/plain; boundary=b"))
	})
}

func TestNoHeaderChangesAFingerprintUnderAny(t *testing.T) {
	of := func(loose bool, language string) store.Fingerprint {
		req, err := http.NewRequest(http.MethodPost, "https://bank.test/refunds", nil)
		require.NoError(t, err)
		req.Header.Set("Accept-Language", language)
		d := Rules{Any: loose}.Describe(req)
		require.Equal(t, []string{language}, d.Request("k1", nil, true).Header["Accept-Language"], "it is stored")
		f, err := d.Fingerprint(http.NoBody)
		require.NoError(t, err)
		return f
	}
	require.Equal(t, of(true, "de"), of(true, "fr"))
	require.NotEqual(t, of(false, "de"), of(false, "fr"))
}

func TestKeptHeadersAreStoredAndChangeNoFingerprint(t *testing.T) {
	request := func(app string) *http.Request {
		r, err := http.NewRequest(http.MethodPost, "https://shop.test/refunds", strings.NewReader("1000"))
		require.NoError(t, err)
		r.Header = http.Header{
			"Accept": {"text/plain"}, "X-App": {app}, "X-Forwarded-For": {app}, "Authorization": {"Bearer hunter2"},
		}
		return r
	}
	rules := Rules{Keep: true}
	first, second := rules.Describe(request("1")), rules.Describe(request("2"))
	one, err := first.Fingerprint(strings.NewReader("1000"))
	require.NoError(t, err)
	two, err := second.Fingerprint(strings.NewReader("1000"))
	require.NoError(t, err)
	require.Equal(t, one, two)

	stored := first.Request("k", nil, true)
	require.Equal(t, http.Header{"Accept": {"text/plain"}, "X-App": {"1"}}, stored.Header)
	require.Equal(t, []string{"Authorization"}, stored.Dropped)
	require.NoError(t, stored.Resumable(true))

	// The twin: without Keep the header is missing, and the request can't be resumed.
	dropped := Rules{}.Describe(request("1")).Request("k", nil, true)
	require.Equal(t, http.Header{"Accept": {"text/plain"}}, dropped.Header)
	require.ErrorContains(t, dropped.Resumable(true), "X-App")
}

// net/http sends each spelling as a line of its own.
func TestTwoSpellingsOfAHeaderAreOne(t *testing.T) {
	header := http.Header{"accept": {"b"}, "Accept": {"a"}}
	req := &http.Request{Method: http.MethodPost, URL: &url.URL{Scheme: "https", Host: "bank.test"}, Header: header}
	for range 50 {
		stored := Rules{}.Describe(req).Request("k1", nil, true)
		require.Equal(t, http.Header{"Accept": {"a", "b"}}, stored.Header)
	}
	require.Equal(t, http.Header{"accept": {"b"}, "Accept": {"a"}}, header)
}
