package taxonomy

import (
	"bytes"
	"compress/gzip"
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
	nested := func(opened, closed int) []byte {
		return []byte(`{` + code + `,"a":` + strings.Repeat("[", opened) + strings.Repeat("]", closed) + `}`)
	}
	long := "TRANSIENT." + strings.Repeat("x", 118)
	kept := Verdict{Code: Code(long), Class: ClassTransient, Said: true}
	for name, c := range map[string]struct {
		body []byte
		want Verdict
	}{
		"deep nesting is no code":           {nested(30_000, 0), unavailable},
		"deep nesting that ends is no code": {nested(20_000, 20_000), unavailable},
		"64 KiB are read":                   {pad(64 << 10), Verdict{Code: PayloadMismatch, Said: true}},
		"one byte more is not":              {pad(64<<10 + 1), unavailable},
		"a code of 128 bytes is kept":       {[]byte(`{"code":"` + long + `"}`), kept},
		"a code of 129 bytes is none":       {[]byte(`{"code":"` + long + `x"}`), unavailable},
		"bytes that are no text are none":   {[]byte("{\"code\":\"\xff\xfe\"}"), unavailable},
		"NUL is no code":                    {[]byte{0, 0, 0}, unavailable},
		"white space alone is no code":      {[]byte(" \r\n"), unavailable},
	} {
		t.Run(name, func(t *testing.T) {
			a := Answer{Status: 503, Header: http.Header{"Content-Type": {"application/problem+json"}}, Body: c.body}
			require.Equal(t, c.want, Classify(a))
		})
	}
}

// packed returns a text in gzip.
func packed(t testing.TB, text string) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, err := z.Write([]byte(text))
	require.NoError(t, err)
	require.NoError(t, z.Close())
	return b.Bytes()
}

// A caller that sets Accept-Encoding itself gets the body as it is on the wire.
func TestABodyInGzipIsRead(t *testing.T) {
	document := packed(t, `{"code":"CONFLICT.idempotency.in_flight"}`)
	long := func(n int) []byte {
		const head, tail = `{"code":"CONFLICT.idempotency.in_flight","pad":"`, `"}`
		return packed(t, head+strings.Repeat("x", n-len(head)-len(tail))+tail)
	}
	inFlight := Verdict{Code: InFlight, Class: ClassTransient, Said: true}
	conflict := Verdict{Code: ConflictState}
	for name, c := range map[string]struct {
		coding string
		body   []byte
		want   Verdict
	}{
		"gzip":                         {"gzip", document, inFlight},
		"its other name":               {"X-GZIP", document, inFlight},
		"one that is unpacked already": {"", []byte(`{"code":"CONFLICT.idempotency.in_flight"}`), inFlight},
		"one that is cut off":          {"gzip", document[:len(document)-9], conflict},
		"one that is no gzip":          {"gzip", []byte(`{"code":"CONFLICT.idempotency.in_flight"}`), conflict},
		"none":                         {"gzip", nil, conflict},
		"64 KiB":                       {"gzip", long(64 << 10), inFlight},
		"one byte more":                {"gzip", long(64<<10 + 1), conflict},
		"a bomb":                       {"gzip", long(10 << 20), conflict},
		"another coding":               {"br", document, conflict},
	} {
		t.Run(name, func(t *testing.T) {
			h := http.Header{"Content-Type": {"application/json"}, "Content-Encoding": {c.coding}}
			require.Equal(t, c.want, Classify(Answer{Status: 409, Header: h, Body: c.body}))
		})
	}
}

func TestMediaTypesThatAreReadAsJSON(t *testing.T) {
	for given, want := range map[string]bool{
		"application/json":                          true,
		"Application/JSON; charset=utf-8":           true,
		"application/problem+json":                  true,
		"application/vnd.acme.error+json; v=2":      true,
		"text/json":                                 true,
		"":                                          true,
		"text/html":                                 false,
		"text/plain; charset=utf-8":                 false,
		"application/jsonp":                         false,
		"application/xml; name=\"a+json\"":          false,
		"application/octet-stream":                  false,
		"application/x-amz-json-1.0":                true,
		"application/x-amz-json-1.1; charset=utf-8": true,
		"application/x-amz-json-2":                  false,
		"application/json, application/problem+js":  false,
	} {
		f := bodyFormat(http.Header{"Content-Type": {given}})
		require.Equal(t, want, f.json, given)
		require.Equal(t, given == "application/problem+json", f.problem, given)
	}
}

func TestMediaTypesThatAreReadAsXML(t *testing.T) {
	for given, want := range map[string]bool{
		"text/xml;charset=UTF-8":  true,
		"application/xml":         true,
		"application/problem+xml": true,
		"":                        true,
		"text/html":               false,
		"application/xhtml+xml":   false,
		"application/json":        false,
	} {
		require.Equal(t, want, bodyFormat(http.Header{"Content-Type": {given}}).xml, given)
	}
}

func TestWordsInBodies(t *testing.T) {
	const (
		w    = "IDEMPOTENCY_IN_FLIGHT"
		slow = `<Error><Code>SlowDown</Code></Error>`
	)
	long := strings.Repeat("x", maxWord)
	for name, c := range map[string]struct {
		body string
		want Code
	}{
		"code":                         {`{"code":"` + w + `"}`, InFlight},
		"code, with an escape":         {`{"code":"\u0049DEMPOTENCY_IN_FLIGHT"}`, InFlight},
		"error, a word":                {`{"error":"` + w + `"}`, InFlight},
		"error.code":                   {`{"error":{"code":"` + w + `"}}`, InFlight},
		"error.type":                   {`{"error":{"type":"` + w + `"}}`, InFlight},
		"error.status":                 {`{"error":{"status":"` + w + `"}}`, InFlight},
		"error.errors[0].reason":       {`{"error":{"errors":[{"reason":"` + w + `"}]}}`, InFlight},
		"errors[0].code":               {`{"errors":[{"code":"` + w + `"}]}`, InFlight},
		"errors[0].reason":             {`{"errors":[{"reason":"` + w + `"}]}`, InFlight},
		"errors[0].type":               {`{"errors":[{"type":"` + w + `"}]}`, InFlight},
		"errors[0].category":           {`{"errors":[{"category":"` + w + `"}]}`, InFlight},
		"errors.code":                  {`{"errors":{"code":"` + w + `"}}`, InFlight},
		"errorCode":                    {`{"errorCode":"` + w + `"}`, InFlight},
		"errorCode, a number":          {`{"errorCode":704}`, InFlight},
		"error_code":                   {`{"error_code":"` + w + `"}`, InFlight},
		"errorType":                    {`{"errorType":"` + w + `"}`, InFlight},
		"__type":                       {`{"__type":"a.b#` + w + `"}`, InFlight},
		"name":                         {`{"name":"` + w + `"}`, InFlight},
		"details[0].issue":             {`{"details":[{"issue":"` + w + `"}]}`, InFlight},
		"type":                         {`{"type":"` + w + `"}`, InFlight},
		"the last segment of a type":   {`{"type":"https://api.test/errors/` + w + `"}`, InFlight},
		"a slash ends a type":          {`{"type":"https://api.test/errors/` + w + `/"}`, InFlight},
		"the fragment of a type":       {`{"type":"https://api.test/errors#` + w + `"}`, InFlight},
		"surrounding space":            {`{"code":" ` + w + ` "}`, InFlight},
		"the first known word wins":    {`{"code":"other","name":"` + w + `","type":"IDEMPOTENCY_CONFLICT"}`, InFlight},
		"XML":                          {`<R><Errors>` + slow + `</Errors></R>`, RateLimited},
		"XML behind other elements":    {`<a><Error><B><C>x</C></B><Code> SlowDown </Code></Error></a>`, RateLimited},
		"XML of another charset":       {`<?xml version="1.0" encoding="x"?>` + slow, RateLimited},
		"a second error is not read":   {`{"errors":[{"code":"x"},{"code":"` + w + `"}]}`, ConflictState},
		"a list in a list is not read": {`{"errors":[[{"code":"` + w + `"}]]}`, ConflictState},
		"an empty list":                {`{"errors":[],"details":[null]}`, ConflictState},
		"null":                         {`{"error":null,"errors":null,"code":null}`, ConflictState},
		"704 as a code is no word":     {`{"code":704}`, ConflictState},
		"a fraction is no word":        {`{"errorCode":704.0}`, ConflictState},
		"a message is not read":        {`{"message":"` + w + `"}`, ConflictState},
		"a segment in a type":          {`{"type":"https://api.test/` + w + `/x"}`, ConflictState},
		"another case":                 {`{"code":"idempotency_IN_flight"}`, ConflictState},
		"a longer word":                {`{"code":"` + w + `_2"}`, ConflictState},
		"XML outside of an Error":      {`<R><Code>SlowDown</Code></R>`, ConflictState},
		"XML after the Error":          {`<R><Error></Error>` + slow + `</R>`, ConflictState},
		"XML that is cut off":          {`<Error><Code`, ConflictState},
		"XML in a comment":             {`<Error><!-- <Code>SlowDown</Code> --></Error>`, ConflictState},
		"XML behind many tokens":       {strings.Repeat("<a></a>", 40) + slow, ConflictState},
		"a word that is too long":      {`{"type":"https://` + long + `/` + w + `"}`, ConflictState},
		"an empty short form":          {`{"type":"://#/"}`, ConflictState},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, c.want, Classify(Answer{Status: 409, Body: []byte(c.body)}).Code)
		})
	}
}
