package webhook_test

import (
	"context"
	"crypto/ed25519"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/redo-go/redo/webhook"
)

// keyService is the client of a KMS, which keeps the private key.
type keyService struct{ private ed25519.PrivateKey }

// Version implements webhook.KeySigner.
func (k *keyService) Version() string { return "v1a" }

// Sign implements webhook.KeySigner.
func (k *keyService) Sign(_ context.Context, message []byte) ([]byte, error) {
	return ed25519.Sign(k.private, message), nil
}

// Public returns the key for consumers.
func (k *keyService) Public() ed25519.PublicKey { return k.private.Public().(ed25519.PublicKey) }

// A producer signs with a key that never leaves its KMS.
func ExampleExternal() {
	kms := &keyService{ed25519.NewKeyFromSeed([]byte("TESTSIGNINGKEYDONOTUSETHISFORANY"))}
	key, err := webhook.External(kms)
	if err != nil {
		fmt.Println(err)
		return
	}
	signer, err := webhook.NewSigner([]webhook.Secret{key})
	if err != nil {
		fmt.Println(err)
		return
	}
	r := httptest.NewRequest("POST", "https://shop.example/webhooks", nil)
	if err := signer.SignRequest(r, "evt_1", time.Now(), []byte("{}")); err != nil {
		fmt.Println(err)
		return
	}
	public, _ := key.Public()
	verifier, err := webhook.NewVerifier([]webhook.Secret{public})
	if err != nil {
		fmt.Println(err)
		return
	}
	d, err := verifier.VerifyAt(time.Now(), r.Header, []byte("{}"))
	fmt.Println(key, d.ID, err)
	// Output:
	// external_*** evt_1 <nil>
}

// A producer publishes its public keys.
func ExampleJWKS() {
	key, err := webhook.ParseSecret("whsk_VEVTVFNJR05JTkdLRVlET05PVFVTRVRISVNGT1JBTlk=")
	if err != nil {
		fmt.Println(err)
		return
	}
	mux := http.NewServeMux()
	mux.Handle("/.well-known/jwks.json", webhook.JWKS(webhook.Fixed(key)))

	w := httptest.NewRecorder()
	mux.ServeHTTP(w, httptest.NewRequest("GET", "/.well-known/jwks.json", nil))
	fmt.Println(w.Code, w.Header().Get("Content-Type"), w.Header().Get("Cache-Control"))
	fmt.Println(w.Body)
	// Output:
	// 200 application/jwk-set+json public, max-age=300
	// {"keys":[{"crv":"Ed25519","kty":"OKP","x":"ZlN4eg7dSSqi0moX9hQUk3orrOouK3QVQSlJa248c_g","kid":"3n4GkzbCBQuUyldbsa0l4ABSEOzW94RG8oKzQcFv96I","use":"sig"}]}
}

// A consumer verifies with the keys that its producer publishes.
func ExampleNewKeySet() {
	key, err := webhook.NewPrivate(nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	bank := httptest.NewTLSServer(webhook.JWKS(webhook.Fixed(key)))
	defer bank.Close()

	keys, err := webhook.NewKeySet(bank.URL+"/.well-known/jwks.json", bank.Client()) // nil outside of tests
	if err != nil {
		fmt.Println(err)
		return
	}
	verifier, err := webhook.NewVerifierFor(keys.Secrets)
	if err != nil {
		fmt.Println(err)
		return
	}
	signer, err := webhook.NewSigner([]webhook.Secret{key})
	if err != nil {
		fmt.Println(err)
		return
	}
	r := httptest.NewRequest("POST", "/webhooks/bank", strings.NewReader("{}"))
	if err := signer.SignRequest(r, "evt_1", time.Now(), []byte("{}")); err != nil {
		fmt.Println(err)
		return
	}
	d, err := verifier.Verify(r)
	fmt.Println(d.ID, err)
	// Output:
	// evt_1 <nil>
}

// Keys of other types are ignored.
func ExampleParseJWKS() {
	keys, err := webhook.ParseJWKS([]byte(`{"keys":[
		{"kty":"RSA","n":"AQAB","e":"AQAB"},
		{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}
	]}`))
	fmt.Println(keys, err)
	// Output:
	// [whpk_***] <nil>
}

// A fixed list takes the place of a function.
func ExampleFixed() {
	secret, err := webhook.ParseSecret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	if err != nil {
		fmt.Println(err)
		return
	}
	list, err := webhook.Fixed(secret)(httptest.NewRequest("POST", "/", nil))
	fmt.Println(list, err)
	// Output:
	// [whsec_***] <nil>
}
