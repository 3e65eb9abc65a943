package redo

import (
	"encoding/hex"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/internal/wire"
	"github.com/redo-go/redo/taxonomy"
)

// A record outlives the program that wrote it: these bytes have to stay readable, and the same.
func TestStoredOutcomeIsFrozen(t *testing.T) {
	for _, c := range []struct {
		name string
		out  outcome
		hex  string
	}{
		{"the smallest", outcome{}, "01000000"},
		{"a success without a response", outcome{effect: Applied, bodyKept: true}, "01020200"},
		{
			"a failure of the server's own words",
			outcome{code: taxonomy.NotFound, effect: NotApplied, said: true, bodyKept: true},
			"0103011456414c49444154494f4e2e6e6f745f666f756e64",
		},
		{
			"a success with a response",
			outcome{effect: Applied, bodyKept: true, response: &wire.Response{Status: 201, Header: http.Header{"Etag": {`"x"`}}, Body: []byte("ok")}},
			"01060200" + "0101c90101010a" + "04457461670103227822" + "6f6b",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.Equal(t, c.hex, hex.EncodeToString(c.out.encode()))
			b, err := hex.DecodeString(c.hex)
			require.NoError(t, err)
			got, err := decodeOutcome(b)
			require.NoError(t, err)
			require.Equal(t, c.out, got)
		})
	}
}

func TestStoredRequestIsFrozen(t *testing.T) {
	for _, c := range []struct {
		name string
		req  storedRequest
		json string
	}{
		{"a key alone", storedRequest{Version: 1, Key: "k1"}, `{"v":1,"key":"k1","body":null,"whole":false}`},
		{
			"no body", storedRequest{Version: 1, Key: "k1", Method: "DELETE", URL: "https://bank.test/refunds/1", Host: "bank.test", Whole: true},
			`{"v":1,"key":"k1","method":"DELETE","url":"https://bank.test/refunds/1","host":"bank.test","body":null,"whole":true}`,
		},
		{
			"an empty body is not the same as none", storedRequest{Version: 1, Key: "k1", Method: "POST", URL: "https://bank.test/", Body: []byte{}, Whole: true},
			`{"v":1,"key":"k1","method":"POST","url":"https://bank.test/","body":"","whole":true}`,
		},
		{
			"any bytes", storedRequest{Version: 1, Key: `a"<b`, Method: "POST", URL: "https://bank.test/?a=1&b=2", Header: http.Header{"If-Match": {`"x"`, "y"}}, Body: []byte{0, 255, '"'}, Whole: true},
			`{"v":1,"key":"a\"\u003cb","method":"POST","url":"https://bank.test/?a=1\u0026b=2","header":{"If-Match":["\"x\"","y"]},"body":"AP8i","whole":true}`,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			b, err := c.req.encode()
			require.NoError(t, err)
			require.Equal(t, c.json, string(b))
			got, err := decodeRequest([]byte(c.json))
			require.NoError(t, err)
			require.Equal(t, c.req, got)
		})
	}
}

func TestOutcomesComeBackAsTheyWere(t *testing.T) {
	for _, c := range []struct {
		name string
		out  outcome
	}{
		{"said, and unknown", outcome{code: taxonomy.Internal, said: true, bodyKept: true}},
		{"a body that was not kept", outcome{effect: Applied, response: &wire.Response{Status: 200, Header: http.Header{}}}},
		{"no body", outcome{effect: Applied, bodyKept: true, response: &wire.Response{Status: 204, Header: http.Header{}}}},
		{"an empty body", outcome{effect: Applied, bodyKept: true, response: &wire.Response{Status: 200, Header: http.Header{}, Body: []byte{}}}},
		{"several values, and none", outcome{effect: Applied, bodyKept: true, response: &wire.Response{
			Status: 200, Header: http.Header{"Link": {"a", "", "b"}, "X-None": nil}, Body: []byte{0, 1, 255},
		}}},
		{"a long code", outcome{code: taxonomy.Code("PROVIDER." + strings.Repeat("x", 1000)), effect: NotApplied}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := decodeOutcome(c.out.encode())
			require.NoError(t, err)
			require.Equal(t, c.out, got)
		})
	}
}

// A record of another version is an error: to read it as none would run the operation anew.
func TestAnotherVersionIsAnErrorOfItsOwn(t *testing.T) {
	for _, version := range []byte{0, 2, 255} {
		_, err := decodeOutcome([]byte{version, 0, 0, 0})
		require.ErrorIs(t, err, errStoredVersion, "%d", version)
	}
	for _, meta := range []string{`{"v":2,"key":"k1"}`, `{"v":0,"key":"k1"}`, `{"key":"k1"}`, `{}`, `null`} {
		_, err := decodeRequest([]byte(meta))
		require.ErrorIs(t, err, errStoredVersion, meta)
	}
	_, err := decodeOutcome([]byte{2, 0, 0, 0})
	require.EqualError(t, err, "redo: the stored operation has another version: 2, this is 1")

	out := outcome{response: &wire.Response{Status: 200, Header: http.Header{}}}.encode()
	out[4] = 9
	_, err = decodeOutcome(out)
	require.ErrorIs(t, err, wire.ErrVersion, "the response within has a version too")
}

func TestWhatIsCutOffIsAnError(t *testing.T) {
	withBody := outcome{
		code: taxonomy.NotFound, effect: NotApplied, bodyKept: true,
		response: &wire.Response{Status: 404, Header: http.Header{"Etag": {"x"}, "Vary": {"a", "b"}}, Body: []byte("gone")},
	}
	for name, c := range map[string]struct {
		out  outcome
		tail int // bytes whose loss can't be told: the body is the rest
	}{
		"a code alone":  {outcome{code: taxonomy.NotFound}, 0},
		"a response":    {outcome{response: &wire.Response{Status: 204, Header: http.Header{"Etag": {"x"}}}}, 0},
		"with its body": {withBody, len("gone")},
	} {
		t.Run(name, func(t *testing.T) {
			whole := c.out.encode()
			for n := range len(whole) - c.tail {
				_, err := decodeOutcome(whole[:n])
				require.Error(t, err, "%d of %d bytes", n, len(whole))
				require.NotErrorIs(t, err, errStoredVersion)
			}
		})
	}
	t.Run("a request", func(t *testing.T) {
		whole, err := storedRequest{Version: storedVersion, Key: "k1", Method: "POST", URL: "https://bank.test/", Body: []byte("x"), Whole: true}.encode()
		require.NoError(t, err)
		for n := range len(whole) {
			_, err := decodeRequest(whole[:n])
			require.Error(t, err, "%d of %d bytes", n, len(whole))
			require.NotErrorIs(t, err, errStoredVersion)
		}
	})
	t.Run("a code that claims more than there is", func(t *testing.T) {
		_, err := decodeOutcome([]byte{1, 0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01})
		require.EqualError(t, err, "redo: the stored outcome is cut off")
	})
}

func FuzzDecodeOutcome(f *testing.F) {
	f.Add([]byte{})
	f.Add(outcome{}.encode())
	f.Add(outcome{code: taxonomy.NotFound, effect: NotApplied, said: true}.encode())
	f.Add(outcome{effect: Applied, bodyKept: true, response: &wire.Response{Status: 200, Header: http.Header{"Etag": {"x"}}, Body: []byte("ok")}}.encode())
	f.Add([]byte{1, 4, 0, 0, 1, 2, 200, 1})
	f.Fuzz(func(t *testing.T, b []byte) {
		out, err := decodeOutcome(b)
		if err != nil {
			return
		}
		again, err := decodeOutcome(out.encode())
		require.NoError(t, err)
		require.Equal(t, out, again)
	})
}

func FuzzDecodeRequest(f *testing.F) {
	f.Add([]byte(`{"v":1,"key":"k1","body":null,"whole":false}`))
	f.Add([]byte(`{"v":1,"key":"k1","method":"POST","url":"https://bank.test/","header":{"Accept":["*/*"]},"body":"eA==","whole":true}`))
	f.Add([]byte(`{"v":2}`))
	f.Add([]byte(`{"v":1,"header":{}}`))
	f.Add([]byte(`nothing`))
	f.Fuzz(func(t *testing.T, b []byte) {
		req, err := decodeRequest(b)
		if err != nil {
			return
		}
		if len(req.Header) == 0 {
			req.Header = nil // JSON leaves an empty one out
		}
		text, err := req.encode()
		require.NoError(t, err)
		again, err := decodeRequest(text)
		require.NoError(t, err)
		require.Equal(t, req, again)
	})
}

func TestStorable(t *testing.T) {
	const secret = "hunter2"
	build := func(t *testing.T) *http.Request {
		req, err := http.NewRequest(http.MethodPost, "https://user:"+secret+"@bank.test/a%2Fb?x=1&y=2#part", strings.NewReader("1000"))
		require.NoError(t, err)
		req.Host = "front.test"
		for name, value := range map[string]string{
			"Accept": "*/*", "Accept-Language": "de", "Content-Type": "text/plain", "Content-Encoding": "identity", "Content-Language": "en",
			"If-Match": `"x"`, "If-None-Match": "*", "Prefer": "respond-async", "Stripe-Version": "2026-01-01", "X-Other": "left out",
			"Authorization": "Bearer " + secret, "Cookie": secret, "X-Api-Key": secret, "X-Auth-Token": secret, "Idempotency-Key": "k0",
		} {
			req.Header.Set(name, value)
		}
		return req
	}
	whole := storedRequest{
		Version: 1, Key: "k1", Method: "POST", URL: "https://bank.test/a%2Fb?x=1&y=2", Host: "front.test", Body: []byte("1000"), Whole: true,
		Header: http.Header{
			"Accept": {"*/*"}, "Accept-Language": {"de"}, "Content-Type": {"text/plain"}, "Content-Encoding": {"identity"}, "Content-Language": {"en"},
			"If-Match": {`"x"`}, "If-None-Match": {"*"}, "Prefer": {"respond-async"}, "Stripe-Version": {"2026-01-01"},
		},
	}
	for _, c := range []struct {
		name    string
		options []Option
		change  func(*http.Request)
		body    []byte
		whole   bool
		want    func(*storedRequest)
	}{
		{"a whole request", nil, nil, []byte("1000"), true, func(*storedRequest) {}},
		{"a body over the cap is left out", nil, nil, nil, false, func(s *storedRequest) { s.Body, s.Whole = nil, false }},
		{"no body", nil, func(r *http.Request) { r.Body = nil }, nil, true, func(s *storedRequest) { s.Body = nil }},
		{"no headers", nil, func(r *http.Request) { r.Header = http.Header{} }, []byte("1000"), true, func(s *storedRequest) { s.Header = nil }},
		{"the profile names what else is kept", []Option{WithProfile(RedoProfile())}, nil, []byte("1000"), true, func(s *storedRequest) { delete(s.Header, "Stripe-Version") }},
		{"nothing but the key", []Option{WithoutStoredRequests()}, nil, []byte("1000"), true, func(s *storedRequest) { *s = storedRequest{Version: 1, Key: "k1"} }},
		// JSON would replace the bytes, and what is resumed would be another request.
		{"a header that is no text can't be resumed", nil, func(r *http.Request) { r.Header.Set("Prefer", "\xff") }, []byte("1000"), true, func(s *storedRequest) {
			s.Header["Prefer"], s.Body, s.Whole = []string{"\xff"}, nil, false
		}},
		{"a query that is no text can't be resumed", nil, func(r *http.Request) { r.URL.RawQuery = "\xff" }, []byte("1000"), true, func(s *storedRequest) {
			s.URL, s.Body, s.Whole = "https://bank.test/a%2Fb?\xff", nil, false
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			client, err := New(append([]Option{WithProfile(StripeProfile())}, c.options...)...)
			require.NoError(t, err)
			req := build(t)
			if c.change != nil {
				c.change(req)
			}
			want := whole
			want.Header = whole.Header.Clone()
			c.want(&want)
			got := client.storable(req, "k1", c.body, c.whole)
			require.Equal(t, want, got)
			text, err := got.encode()
			require.NoError(t, err)
			require.NotContains(t, string(text), secret)
			require.NotContains(t, string(text), "user")
		})
	}
}
