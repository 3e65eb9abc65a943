package taxonomy

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestBodiesThatWouldBeCostlyToRead(t *testing.T) {
	unavailable := Verdict{Code: Unavailable, Class: ClassTransient}
	code := `"code":"CONFLICT.idempotency.payload_mismatch"`
	pad := func(n int) []byte {
		body := `{` + code + `,"pad":"`
		return []byte(body + strings.Repeat("x", n-len(body)-2) + `"}`)
	}
	for name, c := range map[string]struct {
		body []byte
		want Verdict
	}{
		"deep nesting is no code":           {[]byte(`{` + code + `,"a":` + strings.Repeat("[", 30_000)), unavailable},
		"deep nesting that ends is no code": {[]byte(`{` + code + `,"a":` + strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000) + `}`), unavailable},
		"64 KiB are read":                   {pad(64 << 10), Verdict{Code: PayloadMismatch, Said: true}},
		"one byte more is not":              {pad(64<<10 + 1), unavailable},
		"a code of 128 bytes is kept":       {[]byte(`{"code":"TRANSIENT.` + strings.Repeat("x", 118) + `"}`), Verdict{Code: Code("TRANSIENT." + strings.Repeat("x", 118)), Class: ClassTransient, Said: true}},
		"a code of 129 bytes is none":       {[]byte(`{"code":"TRANSIENT.` + strings.Repeat("x", 119) + `"}`), unavailable},
		"bytes that are no text are none":   {[]byte("{\"code\":\"\xff\xfe\"}"), unavailable},
		"NUL is no code":                    {[]byte{0, 0, 0}, unavailable},
	} {
		t.Run(name, func(t *testing.T) {
			a := Answer{Status: 503, Header: http.Header{"Content-Type": {"application/problem+json"}}, Body: c.body}
			require.Equal(t, c.want, Classify(a))
		})
	}
}

func TestMediaTypesThatAreReadAsJSON(t *testing.T) {
	for given, want := range map[string]bool{
		"application/json":                         true,
		"Application/JSON; charset=utf-8":          true,
		"application/problem+json":                 true,
		"application/vnd.acme.error+json; v=2":     true,
		"text/json":                                true,
		"":                                         true,
		"text/html":                                false,
		"text/plain; charset=utf-8":                false,
		"application/jsonp":                        false,
		"application/xml; name=\"a+json\"":         false,
		"application/octet-stream":                 false,
		"application/json, application/problem+js": false,
	} {
		isJSON, isProblem := mediaType(http.Header{"Content-Type": {given}})
		require.Equal(t, want, isJSON, given)
		require.Equal(t, given == "application/problem+json", isProblem, given)
	}
}

func TestTheServerCannotSpeakForTheCaller(t *testing.T) {
	v := Classify(Answer{Status: 504, Header: http.Header{"Error-Code": {string(CallerDeadline)}}})
	require.Equal(t, Verdict{Code: Timeout, Class: ClassTransient}, v)
}

func TestForeignCodesAreInTheTable(t *testing.T) {
	for foreign, code := range foreignCodes {
		require.Contains(t, Codes(), code, foreign)
		require.False(t, isCode(Code(foreign)), "%s would be read as a code of ours", foreign)
	}
}

func TestAMemberWhoseNameIsEscapedIsRead(t *testing.T) {
	v := Classify(Answer{Status: 400, Header: http.Header{"Content-Type": {"application/json"}}, Body: []byte(`{"\u0063ode":"RATE_LIMIT.exceeded"}`)})
	require.Equal(t, RateLimited, v.Code)
	require.True(t, v.Said)
}
