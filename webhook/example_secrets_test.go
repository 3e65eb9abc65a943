package webhook_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/redo-go/redo/webhook"
)

// endpoints holds the secrets of each endpoint. The owner of an endpoint changes them at any time.
type endpoints struct {
	mu      sync.RWMutex
	secrets map[string][]webhook.Secret
}

func (e *endpoints) set(name string, secrets ...webhook.Secret) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.secrets[name] = secrets
}

// byHost is a SecretsFunc for a signer.
func (e *endpoints) byHost(r *http.Request) ([]webhook.Secret, error) {
	e.mu.RLock()
	defer e.mu.RUnlock()
	return e.secrets[r.URL.Host], nil
}

// byTenant is a SecretsFunc for a verifier.
func (e *endpoints) byTenant(r *http.Request) ([]webhook.Secret, error) {
	e.mu.RLock()
	defer e.mu.RUnlock()
	return e.secrets[r.PathValue("tenant")], nil
}

// Each destination has its own secret, which is changed while the relay runs.
func ExampleNewSignerFor() {
	old, err := webhook.ParseSecret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	if err != nil {
		fmt.Println(err)
		return
	}
	next, err := webhook.NewSecret(nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	all := &endpoints{secrets: map[string][]webhook.Secret{}}
	signer, err := webhook.NewSignerFor(all.byHost)
	if err != nil {
		fmt.Println(err)
		return
	}
	sign := func() {
		r := httptest.NewRequest("POST", "https://shop.example/webhooks", nil)
		err := signer.SignRequest(r, "evt_1", time.Unix(1614265330, 0), []byte("{}"))
		fmt.Println(len(strings.Fields(r.Header.Get("webhook-signature"))), err)
	}
	sign()
	all.set("shop.example", old)
	sign()
	all.set("shop.example", next, old)
	sign()
	// Output:
	// 0 webhook: secret refused: the SecretsFunc has none for this request
	// 1 <nil>
	// 2 <nil>
}

// The tenant in the path decides which secrets count.
func ExampleNewVerifierFor() {
	secret, err := webhook.ParseSecret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	if err != nil {
		fmt.Println(err)
		return
	}
	all := &endpoints{secrets: map[string][]webhook.Secret{"acme": {secret}}}
	clock := webhook.Clock(func() time.Time { return time.Unix(1614265330, 0) }) // for the example only
	verifier, err := webhook.NewVerifierFor(all.byTenant, clock)
	if err != nil {
		fmt.Println(err)
		return
	}
	mux := http.NewServeMux()
	mux.Handle("POST /webhooks/{tenant}",
		verifier.Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			d, _ := webhook.FromContext(r.Context())
			fmt.Println("received", d.ID, "for", r.PathValue("tenant"))
		})))
	for _, tenant := range []string{"acme", "other"} {
		r := httptest.NewRequest("POST", "/webhooks/"+tenant, strings.NewReader(`{"test": 2432232314}`))
		r.Header.Set("svix-id", "msg_p5jXN8AQM9LWM0D4loKWxJek") // Svix's names count too
		r.Header.Set("svix-timestamp", "1614265330")
		r.Header.Set("svix-signature", "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=")
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, r)
		fmt.Println(w.Code)
	}
	// Output:
	// received msg_p5jXN8AQM9LWM0D4loKWxJek for acme
	// 200
	// 401
}

// A producer that sends without the redo client signs the request itself.
func ExampleSigner_SignRequest() {
	secret, err := webhook.ParseSecret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	if err != nil {
		fmt.Println(err)
		return
	}
	signer, err := webhook.NewSigner([]webhook.Secret{secret})
	if err != nil {
		fmt.Println(err)
		return
	}
	body := `{"test": 2432232314}`
	ctx := context.Background()
	r, err := http.NewRequestWithContext(ctx, "POST", "https://shop.example/webhooks", strings.NewReader(body))
	if err != nil {
		fmt.Println(err)
		return
	}
	err = signer.SignRequest(r, "msg_p5jXN8AQM9LWM0D4loKWxJek", time.Unix(1614265330, 0), []byte(body))
	fmt.Println(r.Header.Get("webhook-signature"), err)
	// Output:
	// v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE= <nil>
}

// A consumer logs the deliveries that it refuses.
func ExampleRefused() {
	secret, err := webhook.ParseSecret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	if err != nil {
		fmt.Println(err)
		return
	}
	logger := slog.New(slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{ReplaceAttr: withoutTime}))
	verifier, err := webhook.NewVerifier([]webhook.Secret{secret}, webhook.Refused(func(r *http.Request, err error) {
		logger.WarnContext(r.Context(), "webhook refused", "path", r.URL.Path, "error", err)
	}))
	if err != nil {
		fmt.Println(err)
		return
	}
	h := verifier.Handler(http.NotFoundHandler())
	h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("POST", "/webhooks/bank", nil))
	// Output:
	// level=WARN msg="webhook refused" path=/webhooks/bank error="webhook: webhook-id is missing"
}

// withoutTime keeps the example's output the same.
func withoutTime(_ []string, a slog.Attr) slog.Attr {
	if a.Key == slog.TimeKey {
		return slog.Attr{}
	}
	return a
}

// The error names the difference between the clocks.
func ExampleError() {
	secret, err := webhook.ParseSecret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	if err != nil {
		fmt.Println(err)
		return
	}
	verifier, err := webhook.NewVerifier([]webhook.Secret{secret})
	if err != nil {
		fmt.Println(err)
		return
	}
	h := http.Header{}
	h.Set("webhook-id", "msg_p5jXN8AQM9LWM0D4loKWxJek")
	h.Set("webhook-timestamp", "1614265330")
	h.Set("webhook-signature", "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=")
	wrongClock := time.Unix(1614265330+3600, 0)
	_, err = verifier.VerifyAt(wrongClock, h, []byte(`{"test": 2432232314}`))
	var e *webhook.Error
	if errors.As(err, &e) {
		fmt.Println(e.Header, e.Skew, errors.Is(err, webhook.ErrTooOld))
	}
	// Output:
	// webhook-timestamp -1h0m0s true
}
