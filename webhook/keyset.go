package webhook

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redo-go/redo/internal/wire"
)

// Times of a [KeySet].
const (
	KeySetTimeout = 10 * time.Second // for one request
	KeySetMinAge  = time.Minute      // the shortest time between two requests
	KeySetMaxAge  = time.Hour        // the longest, with any max-age of the response
	KeySetKept    = 24 * time.Hour   // the keys are used for this long after the last success
)

// A KeySet holds the public keys of a producer that publishes them as a JSON Web Key Set, such as with [JWKS]. Its
// method Secrets is a [SecretsFunc] for [NewVerifierFor]:
//
//	keys, err := webhook.NewKeySet("https://bank.example/.well-known/jwks.json", nil)
//	verifier, err := webhook.NewVerifierFor(keys.Secrets)
//
// It reads the set when the first delivery arrives, and again when the response's max-age is over. Its Age in a cache
// counts. Signatures of Standard Webhooks do not name their key, so an unknown key causes no request: a producer
// publishes a key before it signs with it. While the set can't be read the last keys are used, for up to KeySetKept.
type KeySet struct {
	url    string
	client *http.Client
	busy   chan struct{} // holds a value while the set is being read
	state  atomic.Pointer[keyState]
}

// A keyState is the result of the last request.
type keyState struct {
	secrets []Secret
	err     error     // secrets can't be used
	until   time.Time // the next request is due
	read    time.Time // the last success
}

// NewKeySet returns a KeySet of the document at the URL, which must have the scheme https. The document is requested
// through the client. The default, nil, is a client over a new [Transport] that follows no redirects.
func NewKeySet(location string, client *http.Client) (*KeySet, error) {
	u, err := url.Parse(location)
	if err != nil || u.Scheme != "https" || u.Host == "" {
		return nil, errors.New("webhook: NewKeySet: the location is no https URL")
	}
	if client == nil {
		client = &http.Client{
			Transport:     new(Dialer).transport(),
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		}
	}
	return &KeySet{url: location, client: client, busy: make(chan struct{}, 1)}, nil
}

// Secrets returns the keys of the set as whpk_ keys. One call at a time requests the document, and the others wait for
// it or for the end of the request's context.
func (k *KeySet) Secrets(r *http.Request) ([]Secret, error) {
	if s := k.state.Load(); s.fresh() {
		return s.secrets, s.err
	}
	select {
	case k.busy <- struct{}{}:
		defer func() { <-k.busy }()
	case <-r.Context().Done():
		return nil, context.Cause(r.Context())
	}
	last := k.state.Load()
	if last.fresh() { // read by another call
		return last.secrets, last.err
	}
	// A sender that disconnects must not make the keys unavailable to others.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), KeySetTimeout)
	defer cancel()
	next := k.request(ctx)
	if next.err != nil && last != nil && !last.read.IsZero() && time.Since(last.read) < KeySetKept {
		next.secrets, next.err, next.read = last.secrets, nil, last.read
	}
	k.state.Store(next)
	return next.secrets, next.err
}

func (s *keyState) fresh() bool { return s != nil && time.Now().Before(s.until) }

// request reads the document once.
func (k *KeySet) request(ctx context.Context) *keyState {
	secrets, age, err := k.fetch(ctx)
	now := time.Now()
	s := &keyState{secrets: secrets, err: err, until: now.Add(max(KeySetMinAge, min(age, KeySetMaxAge)))}
	if err == nil {
		s.read = now
	}
	return s
}

func (k *KeySet) fetch(ctx context.Context) ([]Secret, time.Duration, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, k.url, nil)
	if err != nil {
		return nil, 0, err
	}
	req.Header.Set("Accept", ContentTypeJWKS+", application/json")
	resp, err := k.client.Do(req)
	if err != nil {
		return nil, 0, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, 0, fmt.Errorf("webhook: the JWKS has status %d", resp.StatusCode)
	}
	document, err := wire.ReadBody(resp.Body, resp.ContentLength, MaxJWKS)
	if err != nil {
		return nil, 0, fmt.Errorf("webhook: read the JWKS: %w", err)
	}
	secrets, err := ParseJWKS(document)
	if err != nil {
		return nil, 0, err
	}
	return secrets, freshFor(resp.Header), nil
}

// freshFor returns the max-age of Cache-Control, less the response's age in a cache. The max-age is JWKSMaxAge if there
// is none, and 0 for no-cache and no-store.
func freshFor(h http.Header) time.Duration {
	age := JWKSMaxAge
	for directive := range strings.SplitSeq(strings.ToLower(strings.Join(h.Values("Cache-Control"), ",")), ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(directive), "=")
		switch name {
		case "no-cache", "no-store":
			return 0
		case "max-age":
			n, err := strconv.ParseUint(strings.Trim(value, `"`), 10, 63)
			if err != nil && !errors.Is(err, strconv.ErrRange) { // n is the largest number then: RFC 9111, section 1.2.2
				return 0
			}
			age = seconds(int64(n))
		}
	}
	if n, err := strconv.ParseUint(h.Get("Age"), 10, 63); err == nil {
		age -= seconds(int64(n))
	}
	return age
}
