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
func TestStoredSettlementIsFrozen(t *testing.T) {
	for _, c := range []struct {
		name string
		out  settlement
		hex  string
	}{
		{"the smallest", settlement{}, "01000000"},
		{"a success without a response", settlement{effect: Applied, bodyKept: true}, "01020200"},
		{
			"a failure of the server's own words",
			settlement{code: taxonomy.NotFound, effect: NotApplied, said: true, bodyKept: true},
			"0103011456414c49444154494f4e2e6e6f745f666f756e64",
		},
		{
			"a success with a response",
			settlement{
				effect: Applied, bodyKept: true,
				response: &wire.Response{Status: 201, Header: http.Header{"Etag": {`"x"`}}, Body: []byte("ok")},
			},
			"01060200" + "0101c90101010a" + "04457461670103227822" + "6f6b",
		},
		{
			"a finding",
			settlement{effect: NotApplied, finding: &Finding{Effect: NotApplied, Evidence: "no row", By: "ana"}},
			"01080100" + "066e6f20726f77" + "03616e61",
		},
		{
			"a finding with a response",
			settlement{
				effect: Applied, bodyKept: true,
				response: &wire.Response{Status: 200, Header: http.Header{}, Body: []byte("ok")},
				finding:  &Finding{Effect: Applied, Evidence: "rf_1", By: "probe"},
			},
			"010e0200" + "0472665f31" + "0570726f6265" + "0101c801000000" + "6f6b",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.Equal(t, c.hex, hex.EncodeToString(c.out.encode()))
			b, err := hex.DecodeString(c.hex)
			require.NoError(t, err)
			got, err := decodeSettlement(b)
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
			"no body", storedRequest{
				Version: 1, Key: "k1", Method: "DELETE", URL: "https://bank.test/refunds/1", Host: "bank.test",
				Whole: true,
			},
			`{"v":1,"key":"k1","method":"DELETE","url":"https://bank.test/refunds/1","host":"bank.test","body":null,"whole":true}`,
		},
		{
			"an empty body is not the same as none", storedRequest{
				Version: 1, Key: "k1", Method: "POST", URL: "https://bank.test/", Body: []byte{}, Whole: true,
			},
			`{"v":1,"key":"k1","method":"POST","url":"https://bank.test/","body":"","whole":true}`,
		},
		{
			"any bytes", storedRequest{
				Version: 1, Key: `a"<b`, Method: "POST", URL: "https://bank.test/?a=1&b=2",
				Header: http.Header{"If-Match": {`"x"`, "y"}}, Body: []byte{0, 255, '"'}, Whole: true,
			},
			`{"v":1,"key":"a\"\u003cb","method":"POST","url":"https://bank.test/?a=1\u0026b=2","header":{"If-Match":["\"x\"","y"]},"body":"AP8i","whole":true}`,
		},
		{
			"what was left out, and the outcome it rests on",
			storedRequest{
				Version: 1, Key: "k1", Method: "POST", URL: "https://bank.test/", Whole: true,
				Dropped:   []string{"Authorization", "X-Other"},
				Unapplied: true, Rest: []byte{1, 0, 0, 0},
			},
			`{"v":1,"key":"k1","method":"POST","url":"https://bank.test/","body":null,"whole":true,"dropped":["Authorization","X-Other"],"unapplied":true,"rest":"AQAAAA=="}`,
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

func TestSettlementsComeBackAsTheyWere(t *testing.T) {
	for _, c := range []struct {
		name string
		out  settlement
	}{
		{"said, and unknown", settlement{code: taxonomy.Internal, said: true, bodyKept: true}},
		{
			"a body that was not kept",
			settlement{effect: Applied, response: &wire.Response{Status: 200, Header: http.Header{}}},
		},
		{
			"no body",
			settlement{effect: Applied, bodyKept: true, response: &wire.Response{Status: 204, Header: http.Header{}}},
		},
		{
			"an empty body",
			settlement{effect: Applied, bodyKept: true, response: &wire.Response{Status: 200, Header: http.Header{}, Body: []byte{}}},
		},
		{"several values, and none", settlement{effect: Applied, bodyKept: true, response: &wire.Response{
			Status: 200, Header: http.Header{"Link": {"a", "", "b"}, "X-None": nil}, Body: []byte{0, 1, 255},
		}}},
		{"a finding with a code", settlement{
			code: taxonomy.OutcomeUnknown, effect: Applied,
			finding: &Finding{Effect: Applied, Evidence: "GET /refunds?ref=9ab → rf_1", By: "Ana Müller"},
		}},
		{"a finding of no words", settlement{effect: NotApplied, finding: &Finding{Effect: NotApplied}}},
		{"a finding with a response", settlement{
			effect: Applied, bodyKept: true,
			finding:  &Finding{Effect: Applied, Evidence: strings.Repeat("e", 1000), By: "probe"},
			response: &wire.Response{Status: 201, Header: http.Header{"Etag": {"x"}}, Body: []byte("rf_1")},
		}},
		{"a long code", settlement{code: taxonomy.Code("PROVIDER." + strings.Repeat("x", 1000)), effect: NotApplied}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := decodeSettlement(c.out.encode())
			require.NoError(t, err)
			require.Equal(t, c.out, got)
		})
	}
}

// A record of another version is an error: to read it as none would run the operation anew.
func TestAnotherVersionIsAnErrorOfItsOwn(t *testing.T) {
	for _, version := range []byte{0, 2, 255} {
		_, err := decodeSettlement([]byte{version, 0, 0, 0})
		require.ErrorIs(t, err, errStoredVersion, "%d", version)
	}
	for _, meta := range []string{`{"v":2,"key":"k1"}`, `{"v":0,"key":"k1"}`, `{"key":"k1"}`, `{}`, `null`} {
		_, err := decodeRequest([]byte(meta))
		require.ErrorIs(t, err, errStoredVersion, meta)
	}
	_, err := decodeSettlement([]byte{2, 0, 0, 0})
	require.EqualError(t, err, "redo: the stored operation has another version: 2, this is 1")

	out := settlement{response: &wire.Response{Status: 200, Header: http.Header{}}}.encode()
	out[4] = 9
	_, err = decodeSettlement(out)
	require.ErrorIs(t, err, wire.ErrVersion, "the response within has a version too")
}

func TestWhatIsCutOffIsAnError(t *testing.T) {
	withBody := settlement{
		code: taxonomy.NotFound, effect: NotApplied, bodyKept: true,
		response: &wire.Response{Status: 404, Header: http.Header{"Etag": {"x"}, "Vary": {"a", "b"}}, Body: []byte("gone")},
	}
	for name, c := range map[string]struct {
		out  settlement
		tail int // bytes whose loss can't be told: the body is the rest
	}{
		"a code alone":  {settlement{code: taxonomy.NotFound}, 0},
		"a response":    {settlement{response: &wire.Response{Status: 204, Header: http.Header{"Etag": {"x"}}}}, 0},
		"with its body": {withBody, len("gone")},
		"a finding": {
			settlement{effect: Applied, finding: &Finding{Effect: Applied, Evidence: "rf_1", By: "ana"}}, 0,
		},
		"a finding with a response": {settlement{
			effect: Applied, bodyKept: true, finding: &Finding{Effect: Applied, Evidence: "rf_1", By: "ana"},
			response: &wire.Response{Status: 200, Header: http.Header{"Etag": {"x"}}, Body: []byte("ok")},
		}, len("ok")},
	} {
		t.Run(name, func(t *testing.T) {
			whole := c.out.encode()
			for n := range len(whole) - c.tail {
				_, err := decodeSettlement(whole[:n])
				require.Error(t, err, "%d of %d bytes", n, len(whole))
				require.NotErrorIs(t, err, errStoredVersion)
			}
		})
	}
	t.Run("a request", func(t *testing.T) {
		whole, err := storedRequest{
			Version: storedVersion, Key: "k1", Method: "POST", URL: "https://bank.test/", Body: []byte("x"),
			Whole: true,
		}.encode()
		require.NoError(t, err)
		for n := range len(whole) {
			_, err := decodeRequest(whole[:n])
			require.Error(t, err, "%d of %d bytes", n, len(whole))
			require.NotErrorIs(t, err, errStoredVersion)
		}
	})
	t.Run("a finding that claims more than there is", func(t *testing.T) {
		for _, b := range [][]byte{
			{1, 8, 1, 0},
			{1, 8, 1, 0, 1, 'e'},
			{1, 8, 1, 0, 2, 'e', 0},
			{1, 8, 1, 0, 1, 'e', 2, 'a'},
			{1, 8, 1, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01, 0},
		} {
			_, err := decodeSettlement(b)
			require.EqualError(t, err, "redo: the stored outcome is cut off", "%v", b)
		}
	})
	t.Run("a code that claims more than there is", func(t *testing.T) {
		_, err := decodeSettlement([]byte{1, 0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01})
		require.EqualError(t, err, "redo: the stored outcome is cut off")
	})
}

func FuzzDecodeSettlement(f *testing.F) {
	f.Add([]byte{})
	f.Add(settlement{}.encode())
	f.Add(settlement{code: taxonomy.NotFound, effect: NotApplied, said: true}.encode())
	f.Add(settlement{effect: Applied, bodyKept: true, response: &wire.Response{
		Status: 200, Header: http.Header{"Etag": {"x"}}, Body: []byte("ok"),
	}}.encode())
	f.Add(settlement{effect: NotApplied, finding: &Finding{Effect: NotApplied, Evidence: "no row", By: "ana"}}.encode())
	f.Add(settlement{
		effect: Applied, bodyKept: true, finding: &Finding{Effect: Applied, Evidence: "rf_1", By: "probe"},
		response: &wire.Response{Status: 200, Header: http.Header{"Etag": {"x"}}, Body: []byte("ok")},
	}.encode())
	f.Add([]byte{1, 4, 0, 0, 1, 2, 200, 1})
	f.Add([]byte{1, 8, 1, 0, 2, 'e'})
	f.Fuzz(func(t *testing.T, b []byte) {
		out, err := decodeSettlement(b)
		if err != nil {
			return
		}
		again, err := decodeSettlement(out.encode())
		require.NoError(t, err)
		require.Equal(t, out, again)
	})
}

func FuzzDecodeRequest(f *testing.F) {
	f.Add([]byte(`{"v":1,"key":"k1","body":null,"whole":false}`))
	f.Add([]byte(`{"v":1,"key":"k1","method":"POST","url":"https://bank.test/","header":{"Accept":["*/*"]},"body":"eA==","whole":true}`))
	f.Add([]byte(`{"v":1,"key":"k1","body":null,"whole":true,"dropped":["Cookie"],"unapplied":true,"rest":"AQAAAA=="}`))
	f.Add([]byte(`{"v":2}`))
	f.Add([]byte(`{"v":1,"header":{}}`))
	f.Add([]byte(`nothing`))
	f.Fuzz(func(t *testing.T, b []byte) {
		req, err := decodeRequest(b)
		if err != nil {
			return
		}
		// JSON leaves empty ones out.
		if len(req.Header) == 0 {
			req.Header = nil
		}
		if len(req.Dropped) == 0 {
			req.Dropped = nil
		}
		if len(req.Rest) == 0 {
			req.Rest = nil
		}
		text, err := req.encode()
		require.NoError(t, err)
		again, err := decodeRequest(text)
		require.NoError(t, err)
		require.Equal(t, req, again)
	})
}
