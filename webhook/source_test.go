package webhook_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo"
	"github.com/redo-go/redo/taxonomy"
	"github.com/redo-go/redo/webhook"
)

func signerFor(t *testing.T, f webhook.SecretsFunc, opts ...webhook.SignerOption) *webhook.Signer {
	t.Helper()
	s, err := webhook.NewSignerFor(f, opts...)
	require.NoError(t, err)
	return s
}

func verifierFor(t *testing.T, f webhook.SecretsFunc, opts ...webhook.VerifierOption) *webhook.Verifier {
	t.Helper()
	v, err := webhook.NewVerifierFor(f, opts...)
	require.NoError(t, err)
	return v
}

// newDelivery returns a request with an id.
func newDelivery(t *testing.T, url string) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(vectorBody))
	require.NoError(t, err)
	r.Header.Set("webhook-id", vectorID)
	return r
}

// hand returns a base that passes each request to h.
func hand(h http.Handler) http.RoundTripper {
	return roundTrip(func(r *http.Request) (*http.Response, error) {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w.Result(), nil
	})
}

func TestEachDestinationHasItsOwnSecrets(t *testing.T) {
	a, b := secret(t, sharedSecret), secret(t, privateKey)
	byHost := func(r *http.Request) ([]webhook.Secret, error) {
		return map[string][]webhook.Secret{"a.test": {a}, "b.test": {b}}[r.URL.Host], nil
	}
	s := signerFor(t, byHost)
	for host, own := range map[string]webhook.Secret{"a.test": a, "b.test": b} {
		mine := verifier(t, []webhook.Secret{own})
		resp, err := s.Transport(hand(mine.Handler(http.HandlerFunc(ok)))).RoundTrip(newDelivery(t,
			"https://"+host+"/"))
		require.NoError(t, err)
		require.Equal(t, http.StatusNoContent, resp.StatusCode)
	}
	other := verifier(t, []webhook.Secret{b})
	resp, err := s.Transport(hand(other.Handler(http.HandlerFunc(ok)))).RoundTrip(newDelivery(t, "https://a.test/"))
	require.NoError(t, err)
	require.Equal(t, http.StatusUnauthorized, resp.StatusCode)
}

// Both sides read their secrets on each request, so a rotation needs no restart and refuses nothing.
func TestASecretIsRotatedWithoutARestart(t *testing.T) {
	old, next := secret(t, sharedSecret), secret(t, privateKey)
	public, _ := next.Public()
	var producer, consumer atomic.Value
	load := func(v *atomic.Value) webhook.SecretsFunc {
		return func(*http.Request) ([]webhook.Secret, error) { return v.Load().([]webhook.Secret), nil }
	}
	var matched []int
	h := verifierFor(t, load(&consumer)).Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		d, _ := webhook.FromContext(r.Context())
		matched = append(matched, d.Secret)
	}))
	tr := signerFor(t, load(&producer)).Transport(hand(h))
	deliver := func() int {
		resp, err := tr.RoundTrip(newDelivery(t, "https://shop.test/"))
		require.NoError(t, err)
		return resp.StatusCode
	}
	for _, step := range []struct{ producer, consumer []webhook.Secret }{
		{[]webhook.Secret{old}, []webhook.Secret{old}},
		{[]webhook.Secret{old}, []webhook.Secret{public, old}},
		{[]webhook.Secret{old, next}, []webhook.Secret{public, old}},
		{[]webhook.Secret{next}, []webhook.Secret{public, old}},
		{[]webhook.Secret{next}, []webhook.Secret{public}},
	} {
		producer.Store(step.producer)
		consumer.Store(step.consumer)
		require.Equal(t, http.StatusOK, deliver())
	}
	require.Equal(t, []int{0, 1, 0, 0, 0}, matched)
	producer.Store([]webhook.Secret{old})
	require.Equal(t, http.StatusUnauthorized, deliver(), "the old secret counts no more")
}

func TestTheTenantOfThePathChoosesTheSecrets(t *testing.T) {
	a, b := secret(t, sharedSecret), secret(t, privateKey)
	down := errors.New("connection to 10.0.0.5 lost")
	v := verifierFor(t, func(r *http.Request) ([]webhook.Secret, error) {
		switch r.PathValue("tenant") {
		case "a":
			return []webhook.Secret{a}, nil
		case "b":
			return []webhook.Secret{b}, nil
		case "down":
			return nil, down
		case "zero":
			return []webhook.Secret{{}}, nil
		}
		return nil, nil
	}, atVectorTime())
	mux := http.NewServeMux()
	mux.Handle("POST /hooks/{tenant}", v.Handler(http.HandlerFunc(ok)))
	for _, c := range []struct {
		tenant string
		status int
		code   taxonomy.Code
		detail string
	}{
		{"a", http.StatusNoContent, "", ""},
		{"b", http.StatusUnauthorized, taxonomy.Unauthenticated,
			"webhook-signature has no signature of a version that is verified here"},
		{"unknown", http.StatusUnauthorized, taxonomy.Unauthenticated, "webhook-signature matches no secret"},
		{"down", http.StatusServiceUnavailable, taxonomy.Unavailable, "its secrets can't be found now"},
		{"zero", http.StatusServiceUnavailable, taxonomy.Unavailable, "its secrets can't be found now"},
	} {
		t.Run(c.tenant, func(t *testing.T) {
			r := post(strings.NewReader(vectorBody))
			r.URL.Path = "/hooks/" + c.tenant
			w := httptest.NewRecorder()
			mux.ServeHTTP(w, r)
			require.Equal(t, c.status, w.Code)
			if c.code == "" {
				return
			}
			var p struct {
				Code, Detail string
				Retryable    bool
			}
			require.NoError(t, json.Unmarshal(w.Body.Bytes(), &p))
			require.Equal(t, string(c.code), p.Code)
			require.Equal(t, "The delivery is refused: "+c.detail+".", p.Detail)
			require.Equal(t, c.status == http.StatusServiceUnavailable, p.Retryable)
		})
	}
	_, err := v.Verify(func() *http.Request {
		r := post(strings.NewReader(vectorBody))
		r.SetPathValue("tenant", "down")
		return r
	}())
	require.ErrorIs(t, err, webhook.ErrSecretsUnavailable)
	require.ErrorIs(t, err, down)
}

func TestASignerWithoutSecretsSendsNothing(t *testing.T) {
	for _, c := range []struct {
		name    string
		secrets []webhook.Secret
		err     error
		want    string
		code    taxonomy.Code
		retry   bool
	}{
		{"the store is down", nil, errors.New("down"), "webhook: secrets unavailable: down",
			webhook.SigningUnavailable, true},
		{"a code of the store does not count", nil, taxonomy.Forbidden, "webhook: secrets unavailable: AUTH.forbidden",
			webhook.SigningUnavailable, true},
		{"an unknown destination", nil, nil, "webhook: secret refused: the SecretsFunc has none for this request",
			webhook.Unsigned, false},
		{"a zero secret", []webhook.Secret{{}}, nil, "webhook: secret refused: number 0 of them is the zero Secret",
			webhook.Unsigned, false},
		{"an unreadable secret", nil, webhook.ErrSecret, "webhook: secrets unavailable: webhook: secret refused",
			webhook.Unsigned, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := signerFor(t, func(*http.Request) ([]webhook.Secret, error) { return c.secrets, c.err })
			sent := 0
			e := failed(t, s.Transport(roundTrip(func(r *http.Request) (*http.Response, error) {
				sent++
				return answer(r, http.StatusOK), nil
			})))
			require.Zero(t, sent)
			require.ErrorContains(t, e, c.want)
			require.Equal(t, c.code, e.Code)
			require.Equal(t, redo.NotApplied, e.Effect)
			require.Equal(t, c.retry, e.Code.Transient())
		})
	}
}

// failed delivers once through a redo client, and returns its error.
func failed(t *testing.T, base http.RoundTripper) *redo.Error {
	t.Helper()
	client, err := redo.New(redo.WithTransport(base), redo.WithRetry(redo.RetryPolicy{MaxAttempts: 1}))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, client.Close()) })
	_, err = client.Do(newDelivery(t, "https://shop.test/")) //nolint:bodyclose // there is none
	e, ok := errors.AsType[*redo.Error](err)
	require.True(t, ok, "%v", err)
	require.Len(t, e.Attempts, 1)
	return e
}

func TestAFunctionNeedsARequest(t *testing.T) {
	s := signerFor(t, webhook.Fixed(secret(t, sharedSecret)))
	_, err := s.Sign(vectorID, vectorTime, []byte(vectorBody))
	require.EqualError(t, err, "webhook: secret refused: the signer needs a request: use SignRequest or Transport")
	h := http.Header{}
	require.ErrorIs(t, s.SetHeader(h, vectorID, vectorTime, []byte(vectorBody)), webhook.ErrSecret)
	require.Empty(t, h)
	r := httptest.NewRequest(http.MethodPost, "/", nil)
	r.Header = nil
	require.NoError(t, s.SignRequest(r, vectorID, vectorTime, []byte(vectorBody)))
	require.Equal(t, vectorHeader(), r.Header)

	v := verifierFor(t, webhook.Fixed(secret(t, sharedSecret)))
	_, err = v.VerifyAt(vectorTime, vectorHeader(), []byte(vectorBody))
	require.EqualError(t, err, "webhook: secret refused: the verifier needs a request: use Verify or Handler")

	_, err = webhook.NewSignerFor(nil)
	require.EqualError(t, err, "webhook: secret refused: the SecretsFunc is nil")
	_, err = webhook.NewVerifierFor(nil, webhook.MaxBody(-1))
	require.EqualError(t, err,
		"webhook: secret refused: the SecretsFunc is nil\nwebhook: option MaxBody: -1 is negative")
}

// A consumer's wrong clock must not cost an event: its response is retried.
func TestAClockSkewIsRetried(t *testing.T) {
	secrets := []webhook.Secret{secret(t, sharedSecret)}
	late := verifier(t, secrets, atVectorTime()).Handler(http.HandlerFunc(ok))
	e := failed(t, signer(t, secrets).Transport(hand(late)))
	require.Equal(t, webhook.ClockSkew, e.Code)
	require.Equal(t, http.StatusUnauthorized, e.StatusCode)
	require.True(t, e.Code.Transient())

	other := verifier(t, []webhook.Secret{secret(t, privateKey)}).Handler(http.HandlerFunc(ok))
	e = failed(t, signer(t, secrets).Transport(hand(other)))
	require.Equal(t, taxonomy.Unauthenticated, e.Code)
	require.False(t, e.Code.Transient())
}
