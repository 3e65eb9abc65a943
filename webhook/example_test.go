package webhook_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/redo-go/redo/webhook"
)

// A consumer wraps its handler, which then runs for verified deliveries only.
func ExampleVerifier_Handler() {
	secret, err := webhook.ParseSecret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	if err != nil {
		fmt.Println(err)
		return
	}
	clock := webhook.Clock(func() time.Time { return time.Unix(1614265330, 0) }) // for the example only
	verifier, err := webhook.NewVerifier([]webhook.Secret{secret}, clock)
	if err != nil {
		fmt.Println(err)
		return
	}
	receive := verifier.Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		d, _ := webhook.FromContext(r.Context())
		fmt.Println("received", d.ID, string(d.Body))
	}))

	for _, body := range []string{`{"test": 2432232314}`, `{"test": 2432232315}`} {
		r := httptest.NewRequest(http.MethodPost, "/webhooks", strings.NewReader(body))
		r.Header.Set("webhook-id", "msg_p5jXN8AQM9LWM0D4loKWxJek")
		r.Header.Set("webhook-timestamp", "1614265330")
		r.Header.Set("webhook-signature", "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=")
		w := httptest.NewRecorder()
		receive.ServeHTTP(w, r)
		fmt.Println(w.Code, http.StatusText(w.Code))
	}
	// Output:
	// received msg_p5jXN8AQM9LWM0D4loKWxJek {"test": 2432232314}
	// 200 OK
	// 401 Unauthorized
}

// A producer that changes its secret signs with both, until all consumers have the new one.
func ExampleSigner_Sign() {
	var secrets []webhook.Secret
	for _, text := range []string{
		"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_bmV3IHNlY3JldCBvZiB0aGlydHktdHdvIGJ5dGVzISE=",
	} {
		s, err := webhook.ParseSecret(text)
		if err != nil {
			fmt.Println(err)
			return
		}
		secrets = append(secrets, s)
	}
	signer, err := webhook.NewSigner(secrets)
	if err != nil {
		fmt.Println(err)
		return
	}
	body := []byte(`{"test": 2432232314}`)
	signatures, err := signer.Sign("msg_p5jXN8AQM9LWM0D4loKWxJek", time.Unix(1614265330, 0), body)
	fmt.Println(len(strings.Fields(signatures)), err, strings.Fields(signatures)[0])
	fmt.Println(secrets)
	// Output:
	// 2 <nil> v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=
	// [whsec_*** whsec_***]
}
