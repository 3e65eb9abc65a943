package redo

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/internal/wire"
	"github.com/redo-go/redo/taxonomy"
)

func TestProfilesAreValidAndTheirOwn(t *testing.T) {
	for name, f := range map[string]func() Profile{"redo": RedoProfile, "ietf": IETFProfile, "stripe": StripeProfile} {
		t.Run(name, func(t *testing.T) {
			p := f()
			require.NoError(t, p.validate())
			require.Equal(t, name, p.Name)
			require.Equal(t, "Idempotency-Key", p.Header)
			require.Equal(t, 255, p.MaxKey)
			require.Equal(t, 24*time.Hour, p.Retention)
			p.Methods[0] = "GET"
			require.NoError(t, f().validate(), "a change to one is no change to the next")
		})
	}
}

func TestProfiles(t *testing.T) {
	require.Equal(t, "abc", RedoProfile().encode("abc"))
	require.Equal(t, `"abc"`, IETFProfile().encode("abc"))
	require.Equal(t, "abc", StripeProfile().encode("abc"))

	require.Empty(t, RedoProfile().statusCodes(), "redo's own server names its codes")
	require.Equal(t, map[int]taxonomy.Code{409: taxonomy.InFlight, 422: taxonomy.PayloadMismatch}, IETFProfile().statusCodes())
	require.Equal(t, map[int]taxonomy.Code{409: taxonomy.InFlight}, StripeProfile().statusCodes())

	require.Equal(t, "X-Request-Timeout", RedoProfile().TimeoutHeader)
	require.Empty(t, IETFProfile().TimeoutHeader)
	require.Empty(t, StripeProfile().TimeoutHeader)
}

// What a key is sent as has to be read as that very key, and as no other's.
func TestAKeyIsSentAsWhatItIs(t *testing.T) {
	for _, key := range []string{"abc", "a b", "a;b=1", `a\b`, "a,b", "a,a", `"a"`, `a"`, `\"`} {
		for _, p := range []Profile{RedoProfile(), IETFProfile()} {
			got, err := wire.ParseKey([]string{p.encode(key)})
			require.NoError(t, err, "%s as %s", key, p.encode(key))
			require.Equal(t, key, got, "as %s", p.encode(key))
		}
	}
}

func TestAVerbatimProfileSendsAnyKeyAsItIs(t *testing.T) {
	p := RedoProfile()
	p.Verbatim = true
	require.Equal(t, `a,"b"`, p.encode(`a,"b"`))
}

func TestProfileKeysMethods(t *testing.T) {
	p := RedoProfile()
	for method, want := range map[string]bool{"POST": true, "PATCH": true, "PUT": false, "DELETE": false, "GET": false, "": false, "post": false} {
		require.Equal(t, want, p.keyed(method), method)
	}
}

func TestMargin(t *testing.T) {
	for _, c := range []struct{ retention, want time.Duration }{
		{24 * time.Hour, time.Hour}, {8 * time.Hour, time.Hour}, {4 * time.Hour, 30 * time.Minute}, {8 * time.Minute, time.Minute},
	} {
		require.Equal(t, c.want, Profile{Retention: c.retention}.margin(), c.retention)
	}
}

func TestProfileRefuses(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*Profile)
		want   string
	}{
		{"the zero profile", func(p *Profile) { *p = Profile{} }, `redo: profile "": the header is "", it must be a header name`},
		{"no header", func(p *Profile) { p.Header = "" }, `redo: profile "acme": the header is "", it must be a header name`},
		{"a header with a space", func(p *Profile) { p.Header = "Idempotency Key" }, `redo: profile "acme": the header is "Idempotency Key", it must be a header name`},
		{"a header with a colon", func(p *Profile) { p.Header = "Key:" }, `redo: profile "acme": the header is "Key:", it must be a header name`},
		{"a header with a line break", func(p *Profile) { p.Header = "Key\r\nEvil" }, `redo: profile "acme": the header is "Key\r\nEvil", it must be a header name`},
		{"a header that is no token", func(p *Profile) { p.Header = "Key(1)" }, `redo: profile "acme": the header is "Key(1)", it must be a header name`},
		{"a header beyond ASCII", func(p *Profile) { p.Header = "Schlüssel" }, `redo: profile "acme": the header is "Schlüssel", it must be a header name`},
		{"a header of credentials", func(p *Profile) { p.Header = "authorization" }, `redo: profile "acme": the header "authorization" carries credentials`},
		{"a timeout header that is no name", func(p *Profile) { p.TimeoutHeader = "X Timeout" }, `redo: profile "acme": the timeout header is "X Timeout", it must be a header name`},
		{"a timeout in the key's place", func(p *Profile) { p.TimeoutHeader = "idempotency-key" }, `redo: profile "acme": the key and the timeout are both to be sent as "Idempotency-Key"`},
		{"a key both quoted and verbatim", func(p *Profile) { p.Quoted, p.Verbatim = true, true }, `redo: profile "acme": Quoted and Verbatim contradict each other`},
		{"no key length", func(p *Profile) { p.MaxKey = 0 }, `redo: profile "acme": MaxKey is 0, it must be from 1 to 255`},
		{"a negative key length", func(p *Profile) { p.MaxKey = -1 }, `redo: profile "acme": MaxKey is -1, it must be from 1 to 255`},
		{"a key longer than any", func(p *Profile) { p.MaxKey = 256 }, `redo: profile "acme": MaxKey is 256, it must be from 1 to 255`},
		{"no retention", func(p *Profile) { p.Retention = 0 }, `redo: profile "acme": Retention is 0s, it must be positive`},
		{"a negative retention", func(p *Profile) { p.Retention = -time.Hour }, `redo: profile "acme": Retention is -1h0m0s, it must be positive`},
		{"one status for two meanings", func(p *Profile) { p.MismatchStatus, p.InFlightStatus = 409, 409 }, `redo: profile "acme": MismatchStatus and InFlightStatus are both 409`},
		{"a mismatch that is a success", func(p *Profile) { p.MismatchStatus = 200 }, `redo: profile "acme": status 200 is not a client error`},
		{"a request in flight that is a failure", func(p *Profile) { p.InFlightStatus = 500 }, `redo: profile "acme": status 500 is not a client error`},
		{"a safe method", func(p *Profile) { p.Methods = []string{"POST", "GET"} }, `redo: profile "acme": method "GET" is safe: it never gets a key`},
		{"an empty method, which is GET", func(p *Profile) { p.Methods = []string{""} }, `redo: profile "acme": method "" is safe: it never gets a key`},
		{"a stored header of credentials", func(p *Profile) { p.StoredHeaders = []string{"Stripe-Version", "x-api-key"} }, `redo: profile "acme": the header "x-api-key" carries credentials: it is never stored`},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := RedoProfile()
			p.Name = "acme"
			c.change(&p)
			require.EqualError(t, p.validate(), c.want)
		})
	}
}

func TestProfileHeadersAreFoundHoweverTheyAreWritten(t *testing.T) {
	p := RedoProfile()
	p.Header, p.TimeoutHeader = "x-idempotency-key", "x-time-left"
	var sent http.Header
	client, err := New(WithProfile(p), WithTransport(roundTrip(func(r *http.Request) (*http.Response, error) {
		sent = r.Header.Clone()
		return (&scripted{statuses: []int{200}}).RoundTrip(r)
	})))
	require.NoError(t, err)
	require.NoError(t, send(WithKey(t.Context(), "k1"), t, client))
	require.Equal(t, http.Header{"X-Idempotency-Key": {"k1"}, "X-Time-Left": {"10000"}}, sent)
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestSafeMethods(t *testing.T) {
	for method, want := range map[string][2]bool{ // safe, idempotent
		"": {true, true}, "GET": {true, true}, "HEAD": {true, true}, "OPTIONS": {true, true}, "TRACE": {true, true},
		"PUT": {false, true}, "DELETE": {false, true},
		"POST": {false, false}, "PATCH": {false, false}, "CONNECT": {false, false}, "get": {false, false}, "REFUND": {false, false},
	} {
		require.Equal(t, want, [2]bool{safeMethod(method), idempotentMethod(method)}, "%q", method)
	}
}
