package profile_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redo-go/redo"
	"github.com/redo-go/redo/profile"
	"github.com/redo-go/redo/taxonomy"
)

// A received request, as the server saw it.
type received struct {
	method string
	header http.Header
	body   string
}

// key returns the key as it was sent: in the header, or in the body of an API that takes it there.
func (r received) key(p redo.Profile) string {
	if p.KeyInBody {
		var body struct {
			Key string `json:"idempotency_key"`
		}
		_ = json.Unmarshal([]byte(r.body), &body)
		return body.Key
	}
	if p.Header == "" {
		p.Header = "Idempotency-Key"
	}
	return strings.Join(r.header.Values(p.Header), "|")
}

// A scripted server sends one documented response and then successes.
type scripted struct {
	client   *redo.Client
	api      redo.Profile
	url      string
	report   *redo.Report
	mu       sync.Mutex
	requests []received
}

const givenKey = "0190c6f2-7d3c-7b1e-9a55-5c6f2b1d8e01"

func newScripted(t *testing.T, api redo.Profile, d documented) *scripted {
	t.Helper()
	s := &scripted{api: api}
	s.serve(t, func(w http.ResponseWriter, _ received, n int) {
		if n > 1 {
			w.WriteHeader(http.StatusOK)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		for name, value := range d.Header {
			w.Header().Set(name, value)
		}
		w.WriteHeader(d.Status)
		_, _ = io.WriteString(w, d.text())
	})
	return s
}

// received returns the requests so far.
func (s *scripted) received() []received {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// serve starts a server, and a client with the profile that retries without a wait, up to twice.
func (s *scripted) serve(t *testing.T, respond func(w http.ResponseWriter, r received, n int)) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got := received{r.Method, r.Header.Clone(), string(body)}
		s.mu.Lock()
		s.requests = append(s.requests, got)
		n := len(s.requests)
		s.mu.Unlock()
		respond(w, got, n)
	}))
	t.Cleanup(server.Close)
	policy := redo.RetryPolicy{MaxAttempts: 3, Jitter: redo.NoDelay}
	client, err := redo.New(redo.WithProfile(s.api), redo.WithRetry(policy))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	s.client, s.url = client, server.URL
}

// call sends a GET to an API without keys, and else a POST. redo makes the key, except for an API that takes it in the
// body. A given key may have been sent before, so a refusal then leaves the effect unknown.
func (s *scripted) call(t *testing.T) error {
	t.Helper()
	ctx, report := redo.WithReport(t.Context())
	s.report = report
	method, body := http.MethodPost, `{"idempotency_key":"`+givenKey+`"}`
	if s.api.NoKeys {
		method, body = http.MethodGet, ""
	}
	if s.api.KeyInBody {
		ctx = redo.WithKey(ctx, givenKey)
	}
	req, err := http.NewRequestWithContext(ctx, method, s.url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := s.client.Do(req)
	if err != nil {
		return err
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	return resp.Body.Close()
}

// TestALostResponseIsReplayed lets each API with keys apply the operation, lose the response, and replay it.
func TestALostResponseIsReplayed(t *testing.T) {
	for name, p := range profiles {
		if p.profile.NoKeys {
			continue
		}
		t.Run(name, func(t *testing.T) {
			s := &scripted{api: p.profile}
			effects := map[string]int{}
			var mu sync.Mutex
			s.serve(t, func(w http.ResponseWriter, r received, n int) {
				mu.Lock()
				defer mu.Unlock()
				key := r.key(p.profile)
				if effects[key] == 0 || key == "" {
					effects[key]++
				} else {
					w.Header().Set("Idempotent-Replayed", "true")
					for _, marker := range p.profile.ReplayMarkers {
						w.Header().Set(marker, "true")
					}
				}
				if n == 1 {
					panic(http.ErrAbortHandler)
				}
			})
			if err := s.call(t); err != nil {
				t.Fatal(err)
			}
			mu.Lock()
			defer mu.Unlock()
			requests := s.received()
			if len(requests) != 2 || len(effects) != 1 || effects[requests[0].key(p.profile)] != 1 {
				t.Errorf("%d requests had the effects %v, want one effect", len(requests), effects)
			}
		})
	}
}

// TestAnAPIWithoutKeysIsNotRepeated is the twin: the effect of a lost POST stays unknown.
func TestAnAPIWithoutKeysIsNotRepeated(t *testing.T) {
	for _, p := range []redo.Profile{profile.GitHub, profile.GitLab} {
		s := &scripted{api: p}
		s.serve(t, func(http.ResponseWriter, received, int) { panic(http.ErrAbortHandler) })
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url, strings.NewReader(`{}`))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := s.client.Do(req)
		if err == nil {
			t.Fatal(resp.Body.Close())
		}
		requests := s.received()
		if len(requests) != 1 || requests[0].header.Get("Idempotency-Key") != "" {
			t.Errorf("%s: %d requests, header %v", p.Name, len(requests), requests[0].header)
		}
	}
}

// TestKeysHaveTheDocumentedShape checks the header that each API gets for a key of redo's own.
func TestKeysHaveTheDocumentedShape(t *testing.T) {
	want := map[string]string{
		"azure": "Repeatability-Request-Id", "checkoutcom": "Cko-Idempotency-Key", "paypal": "Paypal-Request-Id",
	}
	quoted := map[string]bool{"echopro": true, "ietf": true}
	for name, p := range profiles {
		s := &scripted{api: p.profile}
		s.serve(t, func(http.ResponseWriter, received, int) {})
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url, bytes.NewReader([]byte(`{}`)))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := s.client.Do(req)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		_ = resp.Body.Close()
		sent := s.received()[0].header
		field := want[name]
		if field == "" {
			field = "Idempotency-Key"
		}
		value := sent.Get(field)
		if p.profile.KeyInBody || p.profile.NoKeys {
			if value != "" {
				t.Errorf("%s: the header has the key %q", name, value)
			}
			continue
		}
		bare := strings.Trim(value, `"`)
		if len(bare) != 36 || (value != bare) != quoted[name] || bare[14] != '7' {
			t.Errorf("%s: %s is %q", name, field, value)
		}
		for other := range sent {
			if other != field && strings.Contains(sent.Get(other), bare) {
				t.Errorf("%s: the key is in %s too", name, other)
			}
		}
	}
}

func TestAzureGetsTheTimeOfTheFirstRequest(t *testing.T) {
	s := newScripted(t, profile.Azure, documented{Status: http.StatusServiceUnavailable})
	if err := s.call(t); err != nil {
		t.Fatal(err)
	}
	const field = "Repeatability-First-Sent"
	requests := s.received()
	first, again := requests[0].header.Get(field), requests[1].header.Get(field)
	at, err := http.ParseTime(first)
	if err != nil || first != again || time.Since(at) > time.Minute {
		t.Errorf("the attempts had %q and %q (%v)", first, again, err)
	}
}

// A rejected 400 is about the format if the key is no GUID, for any payload.
func TestAzureKeyThatIsNoGUID(t *testing.T) {
	rejected := documented{Status: http.StatusBadRequest, Header: map[string]string{"Repeatability-Result": "rejected"}}
	s := newScripted(t, profile.Azure, rejected)
	req, err := http.NewRequestWithContext(redo.WithKey(t.Context(), "order-1"), http.MethodPost, s.url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	if resp, err := s.client.Do(req); err == nil {
		t.Error(resp.Body.Close())
	} else if !errors.Is(err, taxonomy.KeyMalformed) {
		t.Errorf("got %v, want %s", err, taxonomy.KeyMalformed)
	}
}

func TestAdCPReplayIsFinal(t *testing.T) {
	success := taxonomy.Verdict{Class: taxonomy.ClassSuccess, Effect: taxonomy.Applied}
	for body, final := range map[string]bool{
		`{"replayed":true,"status":"completed"}`:               true,
		`{"result":{"structuredContent":{"replayed":true}}}`:   true,
		`{"replayed":false}`:                                   false,
		`{"status":"completed"}`:                               false,
		`{"replayed":"true"}`:                                  false,
		`{"media_buy":{"replayed":true},"status":"completed"}`: false,
	} {
		want := success
		want.Final = final
		if got := profile.AdCP.Classifier(nil, []byte(body), success); got != want {
			t.Errorf("%s: got %+v", body, got)
		}
	}
}
