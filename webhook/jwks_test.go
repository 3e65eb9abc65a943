package webhook_test

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/webhook"
)

// The key of RFC 8037, appendix A: its private part, public part and thumbprint.
const (
	rfcPrivate    = "nWGxne_9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A"
	rfcPublic     = "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"
	rfcThumbprint = "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k"
	rfcSet        = `{"keys":[{"crv":"Ed25519","kty":"OKP","x":"` + rfcPublic + `","kid":"` + rfcThumbprint +
		`","use":"sig"}]}`
)

func rfcSecret(t testing.TB) webhook.Secret {
	t.Helper()
	seed, err := base64.RawURLEncoding.DecodeString(rfcPrivate)
	require.NoError(t, err)
	return secret(t, "whsk_"+base64.StdEncoding.EncodeToString(seed))
}

func get(h http.Handler, method string, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, "/.well-known/jwks.json", nil)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func TestTheKeySetHasThePublicKeysOnly(t *testing.T) {
	private := rfcSecret(t)
	public, _ := private.Public()
	w := get(webhook.JWKS(webhook.Fixed(secret(t, sharedSecret), private, public, externalSecret(t, hmacKMS(t)))),
		"GET")
	require.Equal(t, http.StatusOK, w.Code)
	require.Equal(t, rfcSet, w.Body.String(), "one key, since both have the same public part")
	require.Equal(t, "application/jwk-set+json", w.Header().Get("Content-Type"))
	require.Equal(t, "public, max-age=300", w.Header().Get("Cache-Control"))
	require.Equal(t, fmt.Sprint(len(rfcSet)), w.Header().Get("Content-Length"))

	w = get(webhook.JWKS(webhook.Fixed(secret(t, sharedSecret))), "GET")
	require.Equal(t, `{"keys":[]}`, w.Body.String())

	external := externalSecret(t, ed25519KMS(t))
	got, err := webhook.ParseJWKS(get(webhook.JWKS(webhook.Fixed(private, external)), "GET").Body.Bytes())
	require.NoError(t, err)
	own, _ := secret(t, privateKey).Public()
	require.Equal(t, []string{public.Reveal(), own.Reveal()}, []string{got[0].Reveal(), got[1].Reveal()})
}

func TestTheKeySetIsCached(t *testing.T) {
	h := webhook.JWKS(webhook.Fixed(rfcSecret(t)))
	tag := get(h, "GET").Header().Get("ETag")
	require.NotEmpty(t, tag)
	w := get(h, "GET", "If-None-Match", tag)
	require.Equal(t, http.StatusNotModified, w.Code)
	require.Empty(t, w.Body.String())
	require.Equal(t, http.StatusOK, get(h, "GET", "If-None-Match", `"other"`).Code)
	require.NotEqual(t, tag, get(webhook.JWKS(webhook.Fixed(secret(t, privateKey))), "GET").Header().Get("ETag"))

	w = get(h, "HEAD")
	require.Equal(t, http.StatusOK, w.Code)
	require.Empty(t, w.Body.String())
	w = get(h, "POST")
	require.Equal(t, http.StatusMethodNotAllowed, w.Code)
	require.Equal(t, "GET, HEAD", w.Header().Get("Allow"))

	require.Equal(t, http.StatusServiceUnavailable, get(webhook.JWKS(nil), "GET").Code)
	down := webhook.JWKS(func(*http.Request) ([]webhook.Secret, error) {
		return nil, errors.New("secret store at 10.0.0.5")
	})
	w = get(down, "GET")
	require.Equal(t, http.StatusServiceUnavailable, w.Code)
	require.NotContains(t, w.Body.String(), "10.0.0.5")
	require.Equal(t, "no-store", w.Header().Get("Cache-Control"))
}

func TestKeysOfOtherTypesAreIgnored(t *testing.T) {
	key := func(members string) string {
		return `{"kty":"OKP","crv":"Ed25519","x":"` + rfcPublic + `"` + members + `}`
	}
	for _, c := range []struct {
		name, keys string
		found      int
	}{
		{"none", "", 0},
		{"without optional members", key(""), 1},
		{"with unknown members", key(`,"alg":"EdDSA","x5c":[1],"d":"secret"`), 1},
		{"for signatures", key(`,"use":"sig","key_ops":["verify"]`), 1},
		{"for encryption", key(`,"use":"enc"`), 0},
		{"to sign only", key(`,"key_ops":["sign"]`), 0},
		{"an operation of the wrong type", key(`,"key_ops":7`), 0},
		{"RSA", `{"kty":"RSA","n":"AQAB","e":"AQAB"}`, 0},
		{"X25519", `{"kty":"OKP","crv":"X25519","x":"` + rfcPublic + `"}`, 0},
		{"another type with this curve", `{"kty":"EC","crv":"Ed25519","x":"` + rfcPublic + `"}`, 0},
		{"Ed448", `{"kty":"OKP","crv":"Ed448","x":"AA"}`, 0},
		{"no object", `7, null, "x"`, 0},
		{"several", `{"kty":"EC"},` + key("") + `,` + key(`,"use":"enc"`) + `,` + key(`,"kid":"2"`), 2},
		{"as many as a delivery has signatures", strings.Repeat(key("")+",", 31) + key(""), 32},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := webhook.ParseJWKS([]byte(`{"keys":[` + c.keys + `],"other":1}`))
			require.NoError(t, err)
			require.Len(t, got, c.found)
			require.NotNil(t, got)
			for _, s := range got {
				own, _ := rfcSecret(t).Public()
				require.Equal(t, own.Reveal(), s.Reveal())
			}
		})
	}
}

func TestADamagedKeySetIsRefused(t *testing.T) {
	entry := func(x string) string { return `{"keys":[{"kty":"RSA"},{"kty":"OKP","crv":"Ed25519","x":"` + x + `"}]}` }
	one := strings.TrimSuffix(strings.TrimPrefix(rfcSet, `{"keys":[`), `]}`)
	const noKey = "key 1 of the JWKS is no Ed25519 key: x is not 32 bytes of base64url"
	for _, c := range []struct{ name, document, want string }{
		{"empty", "", "the JWKS is no JSON object with a list of keys"},
		{"a list", "[]", "the JWKS is no JSON object with a list of keys"},
		{"a page", "<html>", "the JWKS is no JSON object with a list of keys"},
		{"cut", rfcSet[:len(rfcSet)-1], "the JWKS is no JSON object with a list of keys"},
		{"no keys", "{}", `the JWKS has no "keys"`},
		{"keys that are null", `{"keys":null}`, `the JWKS has no "keys"`},
		{"keys that are no list", `{"keys":{}}`, "the JWKS is no JSON object with a list of keys"},
		{"a short key", entry(rfcPublic[:40]), noKey},
		{"no key", entry(""), noKey},
		{"padding", entry(rfcPublic + "="), noKey},
		{"the other alphabet", entry(strings.Replace(rfcPublic, "_", "/", 1)), noKey},
		{"loose bits", entry(rfcPublic[:42] + "p"), noKey},
		{"too many keys", `{"keys":[` + strings.Repeat(one+",", 32) + one + `]}`, "the JWKS has more than 32 keys"},
		{"too long", `{"keys":[]}` + strings.Repeat(" ", webhook.MaxJWKS),
			"the JWKS has 65547 bytes, at most 65536 are allowed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := webhook.ParseJWKS([]byte(c.document))
			require.EqualError(t, err, "webhook: secret refused: "+c.want)
			require.ErrorIs(t, err, webhook.ErrSecret)
			require.Nil(t, got)
		})
	}
}

// A set that is read has only public keys, and has the same keys after it is published again.
func FuzzParseJWKS(f *testing.F) {
	f.Add([]byte(rfcSet))
	f.Add([]byte(`{"keys":[{"kty":"OKP","crv":"Ed25519","x":"` + rfcPublic + `","key_ops":["verify"],"d":"A"}]}`))
	f.Add([]byte(`{"keys":[{"kty":"RSA"},7,null]}`))
	f.Add([]byte(`{"keys":null}`))
	f.Fuzz(func(t *testing.T, document []byte) {
		secrets, err := webhook.ParseJWKS(document)
		if err != nil {
			require.ErrorIs(t, err, webhook.ErrSecret)
			require.Nil(t, secrets)
			return
		}
		require.LessOrEqual(t, len(secrets), webhook.MaxSignatures)
		want := map[string]bool{}
		for _, s := range secrets {
			require.True(t, strings.HasPrefix(s.Reveal(), "whpk_"))
			want[s.Reveal()] = true
		}
		published := get(webhook.JWKS(webhook.Fixed(secrets...)), "GET").Body.Bytes()
		require.True(t, json.Valid(published))
		again, err := webhook.ParseJWKS(published)
		require.NoError(t, err)
		require.Len(t, again, len(want))
		for _, s := range again {
			require.True(t, want[s.Reveal()])
		}
	})
}
