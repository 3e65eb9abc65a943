package journal

import (
	"bytes"
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
		out  Settlement
		hex  string
	}{
		{"the smallest", Settlement{}, "01000000"},
		{"a success without a response", Settlement{Effect: taxonomy.Applied, BodyKept: true}, "01020200"},
		{
			"a failure of the server's own words",
			Settlement{Code: taxonomy.NotFound, Effect: taxonomy.NotApplied, Said: true, BodyKept: true},
			"0103011456414c49444154494f4e2e6e6f745f666f756e64",
		},
		{
			"a success with a response",
			Settlement{
				Effect: taxonomy.Applied, BodyKept: true,
				Response: &wire.Response{Status: 201, Header: http.Header{"Etag": {`"x"`}}, Body: []byte("ok")},
			},
			"01060200" + "0101c90101010a" + "04457461670103227822" + "6f6b",
		},
		{
			"a finding",
			Settlement{Effect: taxonomy.NotApplied, Finding: &Finding{Evidence: "no row", By: "ana"}},
			"01080100" + "066e6f20726f77" + "03616e61",
		},
		{
			"a finding with a response",
			Settlement{
				Effect: taxonomy.Applied, BodyKept: true,
				Response: &wire.Response{Status: 200, Header: http.Header{}, Body: []byte("ok")},
				Finding:  &Finding{Evidence: "rf_1", By: "probe"},
			},
			"010e0200" + "0472665f31" + "0570726f6265" + "0101c801000000" + "6f6b",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.Equal(t, c.hex, hex.EncodeToString(c.out.Encode()))
			b, err := hex.DecodeString(c.hex)
			require.NoError(t, err)
			got, err := DecodeSettlement(b)
			require.NoError(t, err)
			require.Equal(t, c.out, got)
		})
	}
}

func TestSettlementsComeBackAsTheyWere(t *testing.T) {
	for _, c := range []struct {
		name string
		out  Settlement
	}{
		{"reported, and unknown", Settlement{Code: taxonomy.Internal, Said: true, BodyKept: true}},
		{
			"a body that was not kept",
			Settlement{Effect: taxonomy.Applied, Response: &wire.Response{Status: 200, Header: http.Header{}}},
		},
		{
			"no body",
			Settlement{
				Effect: taxonomy.Applied, BodyKept: true,
				Response: &wire.Response{Status: 204, Header: http.Header{}},
			},
		},
		{
			"an empty body",
			Settlement{
				Effect: taxonomy.Applied, BodyKept: true,
				Response: &wire.Response{Status: 200, Header: http.Header{}, Body: []byte{}},
			},
		},
		{"several values, and none", Settlement{Effect: taxonomy.Applied, BodyKept: true, Response: &wire.Response{
			Status: 200, Header: http.Header{"Link": {"a", "", "b"}, "X-None": nil}, Body: []byte{0, 1, 255},
		}}},
		{"a finding with a code", Settlement{
			Code: taxonomy.OutcomeUnknown, Effect: taxonomy.Applied,
			Finding: &Finding{Evidence: "GET /refunds?ref=9ab → rf_1", By: "Ana Müller"},
		}},
		{"a finding of no words", Settlement{Effect: taxonomy.NotApplied, Finding: &Finding{}}},
		{"a finding with a response", Settlement{
			Effect: taxonomy.Applied, BodyKept: true,
			Finding:  &Finding{Evidence: strings.Repeat("e", 1000), By: "probe"},
			Response: &wire.Response{Status: 201, Header: http.Header{"Etag": {"x"}}, Body: []byte("rf_1")},
		}},
		{
			"a long code",
			Settlement{Code: taxonomy.Code("PROVIDER." + strings.Repeat("x", 1000)), Effect: taxonomy.NotApplied},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := DecodeSettlement(c.out.Encode())
			require.NoError(t, err)
			require.Equal(t, c.out, got)
		})
	}
}

// A record of another version is an error: to read it as none would run the operation anew.
func TestAnotherVersionIsAnErrorOfItsOwn(t *testing.T) {
	for _, version := range []byte{0, 2, 255} {
		_, err := DecodeSettlement([]byte{version, 0, 0, 0})
		require.ErrorIs(t, err, ErrVersion, "%d", version)
	}
	for _, meta := range []string{`{"v":2,"key":"k1"}`, `{"v":0,"key":"k1"}`, `{"key":"k1"}`, `{}`, `null`} {
		_, err := DecodeRequest([]byte(meta))
		require.ErrorIs(t, err, ErrVersion, meta)
	}
	_, err := DecodeSettlement([]byte{2, 0, 0, 0})
	require.EqualError(t, err, "redo: the stored operation has another version: 2, this is 1")

	out := Settlement{Response: &wire.Response{Status: 200, Header: http.Header{}}}.Encode()
	out[4] = 9
	_, err = DecodeSettlement(out)
	require.ErrorIs(t, err, wire.ErrVersion, "the response within has a version too")
}

func TestUnknownFlagsAndEffectsAreErrors(t *testing.T) {
	out := Settlement{Code: taxonomy.NotFound}.Encode()
	_, err := DecodeSettlement(out)
	require.NoError(t, err)
	for name, c := range map[string]struct {
		at    int
		value byte
	}{"a flag": {1, flagFinding << 1}, "all flags": {1, 255}, "an effect": {2, byte(taxonomy.Applied) + 1}} {
		changed := bytes.Clone(out)
		changed[c.at] = c.value
		_, err := DecodeSettlement(changed)
		require.ErrorContains(t, err, "does not know", name)
	}
}

func TestWhatIsCutOffIsAnError(t *testing.T) {
	withBody := Settlement{
		Code: taxonomy.NotFound, Effect: taxonomy.NotApplied, BodyKept: true,
		Response: &wire.Response{
			Status: 404, Header: http.Header{"Etag": {"x"}, "Vary": {"a", "b"}}, Body: []byte("gone"),
		},
	}
	for name, c := range map[string]struct {
		out  Settlement
		tail int // bytes whose loss does not show: the body is the rest
	}{
		"a code alone":  {Settlement{Code: taxonomy.NotFound}, 0},
		"a response":    {Settlement{Response: &wire.Response{Status: 204, Header: http.Header{"Etag": {"x"}}}}, 0},
		"with its body": {withBody, len("gone")},
		"a finding": {
			Settlement{Effect: taxonomy.Applied, Finding: &Finding{Evidence: "rf_1", By: "ana"}}, 0,
		},
		"a finding with a response": {Settlement{
			Effect: taxonomy.Applied, BodyKept: true, Finding: &Finding{Evidence: "rf_1", By: "ana"},
			Response: &wire.Response{Status: 200, Header: http.Header{"Etag": {"x"}}, Body: []byte("ok")},
		}, len("ok")},
	} {
		t.Run(name, func(t *testing.T) {
			whole := c.out.Encode()
			for n := range len(whole) - c.tail {
				_, err := DecodeSettlement(whole[:n])
				require.Error(t, err, "%d of %d bytes", n, len(whole))
				require.NotErrorIs(t, err, ErrVersion)
			}
		})
	}
	t.Run("a request", func(t *testing.T) {
		whole := Request{
			Version: Version, Key: "k1", Method: "POST", URL: "https://bank.test/", Body: []byte("x"),
			Whole: true,
		}.Encode()
		for n := range len(whole) {
			_, err := DecodeRequest(whole[:n])
			require.Error(t, err, "%d of %d bytes", n, len(whole))
			require.NotErrorIs(t, err, ErrVersion)
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
			_, err := DecodeSettlement(b)
			require.EqualError(t, err, "redo: the stored outcome is cut off", "%v", b)
		}
	})
	t.Run("a code that claims more than there is", func(t *testing.T) {
		_, err := DecodeSettlement([]byte{1, 0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01})
		require.EqualError(t, err, "redo: the stored outcome is cut off")
	})
}

func FuzzDecodeSettlement(f *testing.F) {
	f.Add([]byte{})
	f.Add(Settlement{}.Encode())
	f.Add(Settlement{Code: taxonomy.NotFound, Effect: taxonomy.NotApplied, Said: true}.Encode())
	f.Add(Settlement{Effect: taxonomy.Applied, BodyKept: true, Response: &wire.Response{
		Status: 200, Header: http.Header{"Etag": {"x"}}, Body: []byte("ok"),
	}}.Encode())
	f.Add(Settlement{Effect: taxonomy.NotApplied, Finding: &Finding{Evidence: "no row", By: "ana"}}.Encode())
	f.Add(Settlement{
		Effect: taxonomy.Applied, BodyKept: true, Finding: &Finding{Evidence: "rf_1", By: "probe"},
		Response: &wire.Response{Status: 200, Header: http.Header{"Etag": {"x"}}, Body: []byte("ok")},
	}.Encode())
	f.Add([]byte{1, 4, 0, 0, 1, 2, 200, 1})
	f.Add([]byte{1, 8, 1, 0, 2, 'e'})
	f.Fuzz(func(t *testing.T, b []byte) {
		out, err := DecodeSettlement(b)
		if err != nil {
			return
		}
		again, err := DecodeSettlement(out.Encode())
		require.NoError(t, err)
		require.Equal(t, out, again)
	})
}
