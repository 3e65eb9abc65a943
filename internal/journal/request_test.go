package journal

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/store"
)

func TestStoredRequestIsFrozen(t *testing.T) {
	for _, c := range []struct {
		name string
		req  Request
		json string
	}{
		{"a key alone", Request{Version: 1, Key: "k1"}, `{"v":1,"key":"k1","body":null,"whole":false}`},
		{
			"no body", Request{
				Version: 1, Key: "k1", Method: "DELETE", URL: "https://bank.test/refunds/1", Host: "bank.test",
				Whole: true,
			},
			`{"v":1,"key":"k1","method":"DELETE","url":"https://bank.test/refunds/1","host":"bank.test","body":null,"whole":true}`,
		},
		{
			"an empty body is not the same as none", Request{
				Version: 1, Key: "k1", Method: "POST", URL: "https://bank.test/", Body: []byte{}, Whole: true,
			},
			`{"v":1,"key":"k1","method":"POST","url":"https://bank.test/","body":"","whole":true}`,
		},
		{
			"any bytes", Request{
				Version: 1, Key: `a"<b`, Method: "POST", URL: "https://bank.test/?a=1&b=2",
				Header: http.Header{"If-Match": {`"x"`, "y"}}, Body: []byte{0, 255, '"'}, Whole: true,
			},
			`{"v":1,"key":"a\"\u003cb","method":"POST","url":"https://bank.test/?a=1\u0026b=2","header":{"If-Match":["\"x\"","y"]},"body":"AP8i","whole":true}`,
		},
		{
			"the parts that were left out, and the outcome that it rests on",
			Request{
				Version: 1, Key: "k1", Method: "POST", URL: "https://bank.test/", Whole: true,
				Dropped:   []string{"Authorization", "X-Other"},
				Unapplied: true, Rest: []byte{1, 0, 0, 0},
			},
			`{"v":1,"key":"k1","method":"POST","url":"https://bank.test/","body":null,"whole":true,"dropped":["Authorization","X-Other"],"unapplied":true,"rest":"AQAAAA=="}`,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := c.req.Encode()
			require.Equal(t, c.json, string(b))
			got, err := DecodeRequest([]byte(c.json))
			require.NoError(t, err)
			require.Equal(t, c.req, got)
		})
	}
}

func FuzzDecodeRequest(f *testing.F) {
	f.Add([]byte(`{"v":1,"key":"k1","body":null,"whole":false}`))
	f.Add([]byte(`{"v":1,"key":"k1","method":"POST","url":"https://bank.test/","header":{"Accept":["*/*"]},"body":"eA==","whole":true}`))
	f.Add([]byte(`{"v":1,"key":"k1","body":null,"whole":true,"dropped":["Cookie"],"unapplied":true,"rest":"AQAAAA=="}`))
	f.Add([]byte(`{"v":2}`))
	f.Add([]byte(`{"v":1,"header":{}}`))
	f.Add([]byte(`nothing`))
	f.Fuzz(func(t *testing.T, b []byte) {
		req, err := DecodeRequest(b)
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
		text := req.Encode()
		again, err := DecodeRequest(text)
		require.NoError(t, err)
		require.Equal(t, req, again)
	})
}

func TestResumable(t *testing.T) {
	for _, c := range []struct {
		name        string
		req         Request
		credentials bool
		want        string
	}{
		{"a whole request", Request{Whole: true}, false, ""},
		{"a whole request of a client with credentials", Request{Whole: true}, true, ""},
		{
			"credentials that the client adds", Request{Whole: true, Dropped: []string{"Authorization", "Cookie"}},
			true, "",
		},
		{
			"credentials that nothing adds", Request{Whole: true, Dropped: []string{"Authorization"}}, false,
			"the header Authorization is never stored: add it with WithCredentials",
		},
		{
			"a header that is not stored", Request{Whole: true, Dropped: []string{"X-Other"}}, true,
			"the store does not hold the header X-Other: name it in Profile.StoredHeaders",
		},
		{
			"a header that is not stored, beside credentials",
			Request{Whole: true, Dropped: []string{"Cookie", "X-Other"}}, true,
			"the store does not hold the header X-Other: name it in Profile.StoredHeaders",
		},
		{"a part of a request", Request{}, true, "the store does not hold the whole request"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if err := c.req.Resumable(c.credentials); c.want == "" {
				require.NoError(t, err)
			} else {
				require.EqualError(t, err, c.want)
			}
		})
	}
}

func TestARequestThatIsTooLongForTheStoreIsReducedToItsKey(t *testing.T) {
	long := Request{
		Version: Version, Key: "k1", Method: "POST", URL: "https://bank.test/", Whole: true, Unapplied: true,
		Rest:   []byte{1, 0, 0, 0},
		Header: http.Header{"Accept": {"*/*"}}, Dropped: []string{"Cookie"}, Body: []byte("1000"),
	}
	text := long.Encode()
	got, err := DecodeRequest(text)
	require.NoError(t, err)
	require.Equal(t, long, got, "one that fits is kept")

	long.Header = http.Header{"Accept": {strings.Repeat("x", store.MaxMeta-len(text)+len("*/*"))}}
	text = long.Encode()
	require.Len(t, text, store.MaxMeta, "one that just fits is kept")

	long.Header = http.Header{"Accept": {strings.Repeat("x", store.MaxMeta)}}
	text = long.Encode()
	got, err = DecodeRequest(text)
	require.NoError(t, err)
	require.Equal(t, Request{Version: Version, Key: "k1", Unapplied: true, Rest: []byte{1, 0, 0, 0}}, got)
	require.Error(t, got.Resumable(true))
}
