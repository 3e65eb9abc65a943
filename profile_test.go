package redo

import (
	"maps"
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/internal/wire"
	"github.com/redo-go/redo/taxonomy"
)

func TestRedoProfile(t *testing.T) {
	p := RedoProfile()
	require.NoError(t, p.validate())
	require.Equal(t, "redo", p.Name)
	require.Equal(t, "X-Request-Timeout", p.TimeoutHeader)
	require.Empty(t, p.Statuses, "redo's own server names its codes")
	require.Equal(t, "abc", wire.FormatKey("abc", p.Quoted, p.Verbatim))
}

func TestTheZeroProfileIsTheDefaults(t *testing.T) {
	var p Profile
	require.NoError(t, p.validate())
	require.Equal(t, Profile{
		Header: "Idempotency-Key", MaxKey: 255, Retention: 24 * time.Hour, Methods: []string{"POST", "PATCH"},
		ShouldRetry: taxonomy.DefaultDirectives,
	}, p.withDefaults())
}

func TestProfileDefaultsReplaceNothing(t *testing.T) {
	p := Profile{
		Name: "acme", Header: "x-key", KeyInBody: true, KeepRequestKey: true, Quoted: true, MaxKey: 36,
		Retention:      time.Hour,
		LifetimeHeader: "x-lifetime", Methods: []string{}, Statuses: map[int]taxonomy.Code{409: taxonomy.InFlight},
		Codes: map[string]taxonomy.Code{"busy": taxonomy.Unavailable}, ReplayMarkers: []string{"X-Again"},
		ShouldRetry:   []string{},
		TimeoutHeader: "x-left", FirstSentHeader: "x-first", StoredHeaders: []string{"acme-version"},
	}
	require.NoError(t, p.validate())
	want := p
	want.Header, want.LifetimeHeader, want.TimeoutHeader, want.FirstSentHeader = "X-Key", "X-Lifetime", "X-Left",
		"X-First"
	want.StoredHeaders = []string{"Acme-Version"}
	require.Equal(t, want, p.withDefaults())
	require.Equal(t, []string{"acme-version"}, p.StoredHeaders, "the caller's profile is not changed")
}

func TestALifetimeReplacesTheRetention(t *testing.T) {
	p, err := Profile{Name: "acme", Retention: time.Hour}.WithLifetime("P1D")
	require.NoError(t, err)
	require.Equal(t, Profile{Name: "acme", Retention: 24 * time.Hour}, p)
	p, err = p.WithLifetime("a day")
	require.ErrorContains(t, err, `redo: profile "acme": the lifetime is "a day"`)
	require.Equal(t, 24*time.Hour, p.Retention, "it is left as it was")
}

// The header must be read as the key that was encoded, and as no other.
func TestAKeyIsSentAsWhatItIs(t *testing.T) {
	for _, key := range []string{"abc", "a b", "a;b=1", `a\b`, "a,b", "a,a", `"a"`, `a"`, `\"`} {
		for _, p := range []Profile{{}, {Quoted: true}} {
			got, err := wire.ParseKey([]string{wire.FormatKey(key, p.Quoted, p.Verbatim)})
			require.NoError(t, err, "%s as %s", key, wire.FormatKey(key, p.Quoted, p.Verbatim))
			require.Equal(t, key, got, "as %s", wire.FormatKey(key, p.Quoted, p.Verbatim))
		}
	}
	require.Equal(t, "abc", wire.FormatKey("abc", false, false))
	require.Equal(t, `"abc"`, wire.FormatKey("abc", true, false))
	require.Equal(t, `a,"b"`, wire.FormatKey(`a,"b"`, false, true))
}

func TestUsable(t *testing.T) {
	for _, c := range []struct{ retention, want time.Duration }{
		{24 * time.Hour, 23 * time.Hour},
		{8 * time.Hour, 7 * time.Hour},
		{4 * time.Hour, 3*time.Hour + 30*time.Minute},
		{8 * time.Minute, 7 * time.Minute},
	} {
		require.Equal(t, c.want, open(t, WithProfile(Profile{Retention: c.retention})).retention.Usable(), c.retention)
	}
}

func TestProfileRefuses(t *testing.T) {
	const name = ", it must be a header name"
	const codeRule = ", which is no code of package taxonomy that a server can give"
	both := func(key, timeout string) func(*Profile) {
		return func(p *Profile) { p.Header, p.TimeoutHeader = key, timeout }
	}
	for _, c := range []struct {
		name   string
		change func(*Profile)
		want   string
	}{
		{
			"a header with a space", func(p *Profile) { p.Header = "Idempotency Key" },
			`the header is "Idempotency Key"` + name,
		},
		{"a header with a colon", func(p *Profile) { p.Header = "Key:" }, `the header is "Key:"` + name},
		{
			"a header with a line break", func(p *Profile) { p.Header = "Key\r\nEvil" },
			`the header is "Key\r\nEvil"` + name,
		},
		{"a header that is no token", func(p *Profile) { p.Header = "Key(1)" }, `the header is "Key(1)"` + name},
		{"a header beyond ASCII", func(p *Profile) { p.Header = "Schlüssel" }, `the header is "Schlüssel"` + name},
		{
			"a header of credentials", func(p *Profile) { p.Header = "authorization" },
			`the header "authorization" carries credentials`,
		},
		{
			"a timeout header that is no name", func(p *Profile) { p.TimeoutHeader = "X Left" },
			`the timeout header is "X Left"` + name,
		},
		{
			"a first-sent header that is no name", func(p *Profile) { p.FirstSentHeader = "X First" },
			`the first-sent header is "X First"` + name,
		},
		{
			"a lifetime header that is no name", func(p *Profile) { p.LifetimeHeader = "X Life" },
			`the lifetime header is "X Life"` + name,
		},
		{
			"a timeout in the default key's place", both("", "idempotency-key"),
			`the key and the timeout are both to be sent as "idempotency-key"`,
		},
		{
			"a timeout in the key's place", both("X-Key", "x-key"),
			`the key and the timeout are both to be sent as "x-key"`,
		},
		{
			"a time in the default key's place",
			func(p *Profile) { p.Header, p.FirstSentHeader = "", "idempotency-key" },
			`the key and the time of the first request are both to be sent as "idempotency-key"`,
		},
		{
			"a time in the key's place", func(p *Profile) { p.Header, p.FirstSentHeader = "X-Key", "x-key" },
			`the key and the time of the first request are both to be sent as "x-key"`,
		},
		{
			"a key both quoted and verbatim", func(p *Profile) { p.Quoted, p.Verbatim = true, true },
			"Quoted and Verbatim contradict each other",
		},
		{
			"a key in the payload that is none", func(p *Profile) { p.KeyInBody, p.NoKeys = true, true },
			"KeyInBody and NoKeys contradict each other",
		},
		{
			"headers that mean something and nothing",
			func(p *Profile) { p.AnyHeaders, p.StoredHeaders = true, []string{"X-A"} },
			"AnyHeaders and StoredHeaders contradict each other",
		},
		{"a negative key length", func(p *Profile) { p.MaxKey = -1 }, "MaxKey is -1, it must be from 1 to 255"},
		{"a key longer than any", func(p *Profile) { p.MaxKey = 256 }, "MaxKey is 256, it must be from 1 to 255"},
		{
			"a negative retention", func(p *Profile) { p.Retention = -time.Hour },
			"Retention is -1h0m0s, it must be positive",
		},
		{"a meaning of a success", statuses(200), "status 200 is not a client error"},
		{"a meaning of a redirect", statuses(399), "status 399 is not a client error"},
		{"a meaning of a server's failure", statuses(500), "status 500 is not a client error"},
		{
			"a safe method", func(p *Profile) { p.Methods = []string{"POST", "GET"} },
			`method "GET" is safe: it never gets a key`,
		},
		{
			"an empty method, which is GET", func(p *Profile) { p.Methods = []string{""} },
			`method "" is safe: it never gets a key`,
		},
		{
			"a stored header of credentials",
			func(p *Profile) { p.StoredHeaders = []string{"Stripe-Version", "x-api-key"} },
			`the header "x-api-key" carries credentials: it is never stored`,
		},
		{
			"a header that net/http writes", func(p *Profile) { p.Header = "Host" },
			`the header "Host" has another meaning in HTTP`,
		},
		{
			"a header that net/http drops", func(p *Profile) { p.Header = "transfer-encoding" },
			`the header "transfer-encoding" has another meaning in HTTP`,
		},
		{
			"a time in the place of the content's type", func(p *Profile) { p.FirstSentHeader = "Content-Type" },
			`the header "Content-Type" has another meaning in HTTP`,
		},
		{
			"a timeout in the place of credentials", func(p *Profile) { p.TimeoutHeader = "Authorization" },
			`the header "Authorization" carries credentials`,
		},
		{
			"a time in the timeout's place", func(p *Profile) { p.TimeoutHeader, p.FirstSentHeader = "X-T", "x-t" },
			`the timeout and the time of the first request are both to be sent as "X-T"`,
		},
		{
			"a status without a code", func(p *Profile) { p.Statuses = map[int]taxonomy.Code{409: ""} },
			`status 409 has the code ""` + codeRule,
		},
		{
			"a status with the caller's code",
			func(p *Profile) { p.Statuses = map[int]taxonomy.Code{409: taxonomy.CallerCanceled} },
			`status 409 has the code "CALLER.canceled"` + codeRule,
		},
		{
			"a code of no family", func(p *Profile) { p.Codes = map[string]taxonomy.Code{"late": "SLOW.down"} },
			`the API's code "late" has the code "SLOW.down"` + codeRule,
		},
		{
			"a method in lower case", func(p *Profile) { p.Methods = []string{"post"} },
			`method "post" is not a method's name in capitals`,
		},
		{
			"two methods in one", func(p *Profile) { p.Methods = []string{"POST, PATCH"} },
			`method "POST, PATCH" is not a method's name in capitals`,
		},
		{
			"a stored header that is no name", func(p *Profile) { p.StoredHeaders = []string{"a b"} },
			`the stored header is "a b", it must be a header name`,
		},
		{
			"a stored header with the key", func(p *Profile) { p.StoredHeaders = []string{"idempotency-key"} },
			`the stored header "idempotency-key" carries the key, which differs for each operation`,
		},
		{
			"a marker without a name", func(p *Profile) { p.ReplayMarkers = []string{""} },
			`the response header is "", it must be a header name`,
		},
		{
			"a directive that is no name", func(p *Profile) { p.ShouldRetry = []string{"X:"} },
			`the response header is "X:", it must be a header name`,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := RedoProfile()
			p.Name = "acme"
			c.change(&p)
			require.EqualError(t, p.validate(), `redo: profile "acme": `+c.want)
		})
	}
}

func statuses(status int) func(*Profile) {
	return func(p *Profile) { p.Statuses = map[int]taxonomy.Code{status: taxonomy.InFlight} }
}

// The twin of the test above.
func TestProfileTakesItsLimits(t *testing.T) {
	for name, change := range map[string]func(*Profile){
		"the shortest key":              func(p *Profile) { p.MaxKey = 1 },
		"the longest key":               func(p *Profile) { p.MaxKey = 255 },
		"the lowest status":             statuses(400),
		"the highest status":            statuses(499),
		"the shortest retention":        func(p *Profile) { p.Retention = 1 },
		"another timeout header":        func(p *Profile) { p.Header, p.TimeoutHeader = "X-Key", "Idempotency-Key" },
		"a token that is no usual name": func(p *Profile) { p.Header = "I-Twilio-Idempotency-Token" },
		"a method of the API's own":     func(p *Profile) { p.Methods = []string{"REFUND"} },
		"a stored header of no secrets": func(p *Profile) { p.StoredHeaders = []string{"X-Author-Id"} },
		"a code of the API's own family": func(p *Profile) {
			p.Codes = map[string]taxonomy.Code{"late": taxonomy.Provider + ".late"}
		},
		"a family":                       func(p *Profile) { p.Statuses = map[int]taxonomy.Code{418: taxonomy.Validation} },
		"no directives":                  func(p *Profile) { p.ShouldRetry = []string{} },
		"verbatim, in an API of no keys": func(p *Profile) { p.Verbatim, p.NoKeys = true, true },
	} {
		t.Run(name, func(t *testing.T) {
			p := RedoProfile()
			change(&p)
			require.NoError(t, p.validate())
		})
	}
}

func TestHeadersThatAProfileSends(t *testing.T) {
	for _, c := range []struct {
		name    string
		profile Profile
		want    http.Header
	}{
		{"redo's own", RedoProfile(), http.Header{"Idempotency-Key": {"k1"}, "X-Request-Timeout": {"10000"}}},
		{"the zero profile's", Profile{}, http.Header{"Idempotency-Key": {"k1"}}},
		{
			"names however they are written", Profile{Header: "x-idempotency-key", TimeoutHeader: "x-time-left"},
			http.Header{"X-Idempotency-Key": {"k1"}, "X-Time-Left": {"10000"}},
		},
		{"a quoted key", Profile{Quoted: true}, http.Header{"Idempotency-Key": {`"k1"`}}},
		{
			"the time of the first request", Profile{FirstSentHeader: "repeatability-first-sent"},
			http.Header{"Idempotency-Key": {"k1"}, "Repeatability-First-Sent": {"Sat, 01 Jan 2000 00:00:00 GMT"}},
		},
		{"a key in the payload is in no header", Profile{KeyInBody: true, FirstSentHeader: "X-First"}, http.Header{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var sent http.Header
				client := open(t, WithProfile(c.profile),
					WithTransport(roundTrip(func(r *http.Request) (*http.Response, error) {
						sent = r.Header.Clone()
						return (&scripted{statuses: []int{200}}).RoundTrip(r)
					})))
				require.NoError(t, send(WithKey(t.Context(), "k1"), t, client))
				require.Equal(t, c.want, sent)
			})
		})
	}
}

func TestAProfilesStatusesGiveTheMeaning(t *testing.T) {
	profile := Profile{Statuses: map[int]taxonomy.Code{
		409: taxonomy.InFlight, 422: taxonomy.PayloadMismatch, 423: taxonomy.Unavailable,
	}}
	for _, status := range slices.Sorted(maps.Keys(profile.Statuses)) {
		client := open(t, WithProfile(profile), WithTransport(&scripted{statuses: []int{status}}),
			WithRetry(RetryPolicy{MaxAttempts: 1}))
		require.Equal(t, profile.Statuses[status], CodeOf(send(t.Context(), t, client)), "%d", status)
	}
	client := open(t, WithTransport(&scripted{statuses: []int{422}}))
	require.NotErrorIs(t, send(t.Context(), t, client), taxonomy.PayloadMismatch,
		"without the profile it is another failure")
}
