package webhook_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/webhook"
)

const jwksURL = "https://bank.test/.well-known/jwks.json"

// A scriptedSet responds to each request for a key set by the current function, and counts the requests.
type scriptedSet struct {
	respond  func(r *http.Request) (*http.Response, error)
	requests int
}

func (s *scriptedSet) RoundTrip(r *http.Request) (*http.Response, error) {
	s.requests++
	return s.respond(r)
}

func document(status int, body string, header ...string) func(r *http.Request) (*http.Response, error) {
	return func(r *http.Request) (*http.Response, error) {
		resp := answer(r, status)
		resp.Body, resp.ContentLength = io.NopCloser(strings.NewReader(body)), int64(len(body))
		for i := 0; i < len(header); i += 2 {
			resp.Header.Set(header[i], header[i+1])
		}
		return resp, nil
	}
}

func keySet(t *testing.T, base http.RoundTripper) *webhook.KeySet {
	t.Helper()
	k, err := webhook.NewKeySet(jwksURL, &http.Client{Transport: base})
	require.NoError(t, err)
	return k
}

// found returns the keys of the set, or the error's text.
func found(t *testing.T, k *webhook.KeySet) string {
	t.Helper()
	secrets, err := k.Secrets(httptest.NewRequest(http.MethodPost, "/", nil))
	if err != nil {
		return err.Error()
	}
	texts := []string{}
	for _, s := range secrets {
		texts = append(texts, s.Reveal())
	}
	return strings.Join(texts, " ")
}

func TestAKeySetIsReadAgainWhenItIsOld(t *testing.T) {
	for _, c := range []struct {
		name   string
		header []string
		age    time.Duration
	}{
		{"without a max-age", nil, webhook.JWKSMaxAge},
		{"with one", []string{"Cache-Control", "public, Max-Age=600"}, 10 * time.Minute},
		{"with a short one", []string{"Cache-Control", "max-age=1"}, webhook.KeySetMinAge},
		{"with a long one", []string{"Cache-Control", "max-age=31536000"}, webhook.KeySetMaxAge},
		{"with none allowed", []string{"Cache-Control", "no-cache, max-age=600"}, webhook.KeySetMinAge},
		{"with one that is no number", []string{"Cache-Control", "max-age=x"}, webhook.KeySetMinAge},
		{"of a cache", []string{"Cache-Control", "max-age=600", "Age", "290"}, 310 * time.Second},
		{"that is old in a cache", []string{"Cache-Control", "max-age=600", "Age", "601"}, webhook.KeySetMinAge},
		{"with an age that is no number", []string{"Cache-Control", "max-age=600", "Age", "-1"}, 10 * time.Minute},
		{"with one that overflows", []string{"Cache-Control", "max-age=99999999999999999999"}, webhook.KeySetMaxAge},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				set := &scriptedSet{respond: document(200, rfcSet, c.header...)}
				k := keySet(t, set)
				first, _ := rfcSecret(t).Public()
				require.Equal(t, first.Reveal(), found(t, k))

				next, _ := secret(t, privateKey).Public()
				set.respond = document(200, get(webhook.JWKS(webhook.Fixed(next)), "GET").Body.String())
				time.Sleep(c.age - time.Nanosecond)
				require.Equal(t, first.Reveal(), found(t, k))
				require.Equal(t, 1, set.requests)
				time.Sleep(time.Nanosecond)
				require.Equal(t, next.Reveal(), found(t, k))
				require.Equal(t, 2, set.requests)
			})
		})
	}
}

func TestTheLastKeysAreUsedWhileTheSetCannotBeRead(t *testing.T) {
	own, _ := rfcSecret(t).Public()
	for name, broken := range map[string]func(*http.Request) (*http.Response, error){
		"no response": func(*http.Request) (*http.Response, error) { return nil, errors.New("no route") },
		"a status":    document(500, rfcSet),
		"a page":      document(200, "<html>", "Cache-Control", "max-age=3600"),
		"a redirect":  document(302, rfcSet),
		"a long body": document(200, strings.Repeat(" ", webhook.MaxJWKS+1)),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				set := &scriptedSet{respond: document(200, rfcSet)}
				k := keySet(t, set)
				require.Equal(t, own.Reveal(), found(t, k))
				set.respond = broken
				time.Sleep(webhook.JWKSMaxAge)
				for range 3 {
					require.Equal(t, own.Reveal(), found(t, k))
				}
				require.Equal(t, 2, set.requests, "one request in a minute")
				time.Sleep(webhook.KeySetKept - webhook.JWKSMaxAge - time.Second)
				require.Equal(t, own.Reveal(), found(t, k))
				time.Sleep(webhook.KeySetMinAge)
				require.NotContains(t, found(t, k), "whpk_", "keys that old are not used")
				set.respond = document(200, rfcSet)
				time.Sleep(webhook.KeySetMinAge)
				require.Equal(t, own.Reveal(), found(t, k))
			})
		})
	}
}

// An empty set revokes all keys, which an outage does not.
func TestAnEmptySetRevokesTheKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set := &scriptedSet{respond: document(200, rfcSet)}
		k := keySet(t, set)
		require.NotEmpty(t, found(t, k))
		set.respond = document(200, `{"keys":[]}`)
		time.Sleep(webhook.JWKSMaxAge)
		require.Empty(t, found(t, k))
	})
}

func TestOneCallReadsTheSetForAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hold := make(chan struct{})
		set := &scriptedSet{respond: func(r *http.Request) (*http.Response, error) {
			<-hold
			require.NoError(t, r.Context().Err(), "the end of the first delivery does not end it")
			return document(200, rfcSet)(r)
		}}
		k := keySet(t, set)
		own, _ := rfcSecret(t).Public()
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		all.Go(func() {
			secrets, err := k.Secrets(httptest.NewRequest(http.MethodPost, "/", nil).WithContext(ctx))
			require.NoError(t, err)
			require.Len(t, secrets, 1)
		})
		synctest.Wait()
		for range 8 {
			all.Go(func() { require.Equal(t, own.Reveal(), found(t, k)) })
		}
		all.Go(func() {
			_, err := k.Secrets(httptest.NewRequest(http.MethodPost, "/", nil).WithContext(ctx))
			require.ErrorIs(t, err, context.Canceled)
		})
		synctest.Wait()
		cancel()
		synctest.Wait()
		close(hold)
		all.Wait()
		require.Equal(t, 1, set.requests)
	})
}

func TestADeliveryIsVerifiedByAPublishedKey(t *testing.T) {
	private := rfcSecret(t)
	bank := httptest.NewTLSServer(webhook.JWKS(webhook.Fixed(private)))
	t.Cleanup(bank.Close)
	keys, err := webhook.NewKeySet(bank.URL, bank.Client())
	require.NoError(t, err)
	h := verifierFor(t, keys.Secrets).Handler(http.HandlerFunc(ok))
	for _, c := range []struct {
		signs  webhook.Secret
		status int
	}{{private, http.StatusNoContent}, {secret(t, privateKey), http.StatusUnauthorized}} {
		resp, err := signer(t,
			[]webhook.Secret{c.signs}).Transport(hand(h)).RoundTrip(newDelivery(t, "https://shop.test/"))
		require.NoError(t, err)
		require.Equal(t, c.status, resp.StatusCode)
	}

	// The default client refuses the loopback of the test's server.
	keys, err = webhook.NewKeySet(bank.URL, nil)
	require.NoError(t, err)
	_, err = keys.Secrets(httptest.NewRequest(http.MethodPost, "/", nil))
	require.ErrorIs(t, err, webhook.AddressRefused)
	require.Equal(t, http.ErrUseLastResponse, keys.Client().CheckRedirect(nil, nil), "a redirect is not followed")
}

func TestAKeySetNeedsAnHTTPSLocation(t *testing.T) {
	for _, location := range []string{
		"", "bank.test/jwks.json", "http://bank.test/jwks.json", "https://", "https:// bank.test", "file:///etc/jwks",
	} {
		_, err := webhook.NewKeySet(location, nil)
		require.EqualError(t, err, "webhook: NewKeySet: the location is no https URL", location)
	}
	_, err := webhook.NewKeySet("HTTPS://bank.test/jwks.json", nil)
	require.NoError(t, err)
}
