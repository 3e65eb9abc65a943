package conformance

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/internal/racetest"
)

// A protocol is a server that speaks the protocol of a named profile, and how to make it wrong. The wrong one fails the
// cases in finds.
type protocol struct {
	benign
	wrong func(p *peer)                   // changes the peer
	twist func(http.Handler) http.Handler // is outside of it all
	finds []string
}

// spoken returns the protocols. Each is a peer behind a front that translates.
func spoken() []protocol {
	return []protocol{{
		benign: benign{
			name: "stripe",
			peer: func(p *peer) { p.mismatch, p.keeps5xx, p.marked = http.StatusBadRequest, true, true },
			front: wording(func(a *httptest.ResponseRecorder, code string) any {
				kind := map[string]string{"idempotency_key_reused": "idempotency_error"}[code]
				return map[string]any{"error": map[string]string{"type": kind, "code": code}}
			}),
		},
		wrong: func(p *peer) { p.keeps5xx = false },
		finds: []string{"fault-5xx"},
	}, {
		benign: benign{
			name: "acp",
			peer: func(p *peer) { p.perRoute, p.marked = true, true },
			front: wording(func(a *httptest.ResponseRecorder, code string) any {
				return map[string]string{"type": "invalid_request", "code": translated(code, "idempotency_conflict",
					"idempotency_in_flight", "idempotency_key_required"), "message": "no"}
			}),
		},
		// The words are in a member that ACP does not have.
		twist: wording(func(a *httptest.ResponseRecorder, code string) any {
			return map[string]string{"type": "invalid_request", "reason": code}
		}),
		finds: []string{"mismatch-code"},
	}, {
		benign: benign{
			name:  "ucp",
			peer:  func(p *peer) { p.uuid, p.waits, p.mismatch = true, true, http.StatusConflict },
			front: wording(func(*httptest.ResponseRecorder, string) any { return map[string]string{"content": "no"} }),
		},
		wrong: func(p *peer) { p.any = true },
		finds: []string{"mismatch-body"},
	}, {
		benign: benign{
			name:  "adcp",
			peer:  func(p *peer) { p.marked = true },
			front: adcpFront,
			target: func(t *Target, _ *httptest.Server) {
				t.Advertised = &Advertised{
					Operation: Operation{Method: "GET", Path: "/capabilities"},
					Member:    "adcp.idempotency.replay_ttl_seconds",
				}
			},
		},
		wrong: func(p *peer) { p.any = true },
		finds: []string{"mismatch-body"},
	}, {
		benign: benign{
			name: "iceberg",
			peer: func(p *peer) { p.uuid, p.optional, p.any = true, true, true },
			front: func(next http.Handler) http.Handler {
				var state atomic.Int64
				return rewriting(func(_ *http.Request, a *httptest.ResponseRecorder) {
					if s, ok := strings.CutSuffix(a.Body.String(), "}"); ok && a.Code == http.StatusCreated {
						setBody(a, fmt.Sprintf(`%s,"metadata-version":%d}`, s, state.Add(1)))
					}
				})(onlyUUIDv7(next))
			},
			target: func(t *Target, _ *httptest.Server) {
				t.Advertised = &Advertised{
					Operation: Operation{Method: "GET", Path: "/v1/config"}, Member: "idempotency-key-lifetime",
				}
			},
		},
		wrong: func(p *peer) { p.keeps5xx = true },
		finds: []string{"fault-5xx"},
	}, {
		benign: benign{
			name:  "azure",
			peer:  func(p *peer) { p.uuid, p.optional, p.mismatch = true, true, http.StatusBadRequest },
			front: azureFront,
		},
		wrong: func(p *peer) { p.header = "X-Ms-Client-Request-Id" },
		finds: []string{"replay-effect"},
	}}
}

// translated returns the word of a mismatch, of a key in flight or of a missing key, and other codes as they are.
func translated(code, mismatch, inFlight, missing string) string {
	words := map[string]string{
		"idempotency_key_reused": mismatch, "idempotency_key_in_use": inFlight, "idempotency_key_missing": missing,
	}
	if word, ok := words[code]; ok {
		return word
	}
	return code
}

// codeIn returns the code of a peer's error.
func codeIn(a *httptest.ResponseRecorder) string {
	var e struct{ Error struct{ Code string } }
	_ = json.Unmarshal(a.Body.Bytes(), &e)
	return e.Error.Code
}

// wording gives errors the API's own body.
func wording(body func(a *httptest.ResponseRecorder, code string) any) func(http.Handler) http.Handler {
	return rewriting(func(_ *http.Request, a *httptest.ResponseRecorder) {
		if a.Code < 400 {
			return
		}
		text, _ := json.Marshal(body(a, codeIn(a)))
		a.Header().Set("Content-Type", "application/json")
		setBody(a, string(text))
	})
}

// adcpFront takes the key from the body, and sends an error with 200.
func adcpFront(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/capabilities" {
			_, _ = io.WriteString(w, `{"adcp":{"idempotency":{"replay_ttl_seconds":86400}}}`)
			return
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		key, _ := valueAt(body, "idempotency_key")
		if text, ok := key.(string); ok && text != "" {
			r.Header.Set("Idempotency-Key", text)
		}
		if rest := withoutMembers(body, []string{"idempotency_key"}); rest != nil {
			body = rest
		}
		r.Body = nopCloser{strings.NewReader(string(body))}
		rec := newRecorder(w)
		next.ServeHTTP(rec, r)
		switch code := codeIn(rec.ResponseRecorder); {
		case rec.Code == http.StatusTooManyRequests, rec.Code >= 500, rec.Code == http.StatusNoContent:
		case rec.Code >= 400:
			rec.Code = http.StatusOK
			setBody(rec.ResponseRecorder, fmt.Sprintf(`{"adcp_error":{"code":%q,"recovery":"correctable"}}`,
				translated(code,
					"IDEMPOTENCY_CONFLICT", "IDEMPOTENCY_IN_FLIGHT", "INVALID_REQUEST")))
		case rec.Code == http.StatusCreated:
			text := strings.TrimSuffix(rec.Body.String(), "}")
			again := isReplay(rec.ResponseRecorder)
			setBody(rec.ResponseRecorder, fmt.Sprintf(`%s,"replayed":%t,"timestamp":%q}`, text, again, time.Now()))
		}
		rec.Header().Del("Idempotent-Replayed")
		rec.flush()
	})
}

// onlyUUIDv7 refuses keys of other versions, and advertises the retention.
func onlyUUIDv7(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		key := r.Header.Get("Idempotency-Key")
		switch {
		case r.URL.Path == "/v1/config":
			_, _ = io.WriteString(w, `{"defaults":{},"overrides":{},"idempotency-key-lifetime":"PT30M"}`)
		case len(key) == minKey && key[14] != '7':
			http.Error(w, "no UUID of version 7", http.StatusBadRequest)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// azureFront has the two headers of repeatable requests, and states whether it has accepted one.
func azureFront(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		rec := newRecorder(w)
		keys := r.Header.Values("Repeatability-Request-ID")
		sent, err := http.ParseTime(r.Header.Get("Repeatability-First-Sent"))
		switch {
		case len(keys) > 0 && err != nil:
			http.Error(rec, "no time of the first request", http.StatusBadRequest)
		case len(keys) > 0 && time.Since(sent) > 5*time.Minute:
			http.Error(rec, "too old", http.StatusPreconditionFailed)
		default:
			if len(keys) > 0 {
				r.Header["Idempotency-Key"] = keys
			}
			next.ServeHTTP(rec, r)
		}
		if len(keys) > 0 {
			result := "accepted"
			if slices.Contains([]string{"idempotency_key_reused", "malformed_idempotency_key", "two_idempotency_keys"},
				codeIn(rec.ResponseRecorder)) || rec.Code == http.StatusPreconditionFailed || err != nil {
				result = "rejected"
			}
			rec.Header().Set("Repeatability-Result", result)
		}
		rec.flush()
	})
}

func TestServersConformToTheProtocolThatTheySpeakAndWrongOnesDoNot(t *testing.T) {
	racetest.Repeats(t) // TestReferencePassesInEveryStoreModeAndProfile runs each case
	t.Parallel()        // runs spend their time waiting
	all := spoken()
	var targets []Target
	for _, p := range all {
		right, wrong := p.benign, p.benign
		named := func(t *Target, s *httptest.Server) {
			if p.target != nil {
				p.target(t, s)
			}
			t.Profile, t.Key.Header = p.name, ""
			t.Retention = 0
		}
		right.target, wrong.target = named, named
		wrong.peer = func(q *peer) {
			p.peer(q)
			if p.wrong != nil {
				p.wrong(q)
			}
		}
		if p.twist != nil {
			wrong.front = p.twist
		}
		targets = append(targets, right.start(t), wrong.start(t))
	}
	reports := runAll(t, targets, Seed(1))
	for i, p := range all {
		t.Run(p.name, func(t *testing.T) {
			right, wrong := reports[2*i], reports[2*i+1]
			require.Zero(t, right.ExitCode(true), "%s", trouble(right))
			require.Equal(t, p.name, right.Profile)
			for _, v := range []Verdict{Inconclusive, Blocked, Harness} {
				require.Zero(t, right.Count()[v], "%s: %s", v, trouble(right))
			}
			require.Equal(t, ExitFailed, wrong.ExitCode(false), "%s", trouble(wrong))
			require.Subset(t, broken(wrong), p.finds, "%s", trouble(wrong))
		})
	}
}

func TestProtocolProfilesNameTheirSources(t *testing.T) {
	page, err := os.ReadFile("../docs/conformance.md")
	require.NoError(t, err)
	var names []string
	for _, p := range Profiles() {
		names = append(names, p.Name)
		if p.Name == "redo" {
			continue // CONTRACT.md is its own
		}
		require.NotEmpty(t, p.Sources, p.Name)
		for _, s := range p.Sources {
			require.Contains(t, string(page), "]("+s+")", p.Name)
		}
	}
	require.Equal(t, ProfileNames(), names)
	require.Subset(t, names, []string{"acp", "ucp", "adcp", "iceberg", "azure", "stripe"})
	for _, p := range spoken() {
		require.Contains(t, names, p.name)
	}
}

// A custom profile may leave out the statuses that a named profile leaves out.
func TestNamedProfilesAreValid(t *testing.T) {
	for _, p := range Profiles() {
		target := Target{BaseURL: "http://h", Operation: Operation{Method: "POST", Path: "/x", Body: "{}"},
			CustomProfile: &p}
		require.NoError(t, target.Validate(), p.Name)
	}
}

func TestKeyLengthOfAProfileIsThatOfItsTarget(t *testing.T) {
	for name, c := range map[string]struct {
		own, profile, want int
	}{
		"the profile's":        {0, 64, 64},
		"the target's own":     {100, 64, 100},
		"none, so the default": {0, 0, 255},
	} {
		target := Target{Key: Key{MaxLength: c.own}}.under(Profile{MaxKey: c.profile})
		require.Equal(t, c.want, target.maxKey(), name)
		require.Equal(t, name != "none, so the default", target.declares(NeedKeyLimit, Profile{MaxKey: c.profile}),
			name)
	}
	p := ietfProfile
	p.MaxKey = 35
	target := Target{BaseURL: "http://h", Operation: Operation{Method: "POST", Path: "/x"}, CustomProfile: &p}
	require.ErrorContains(t, target.Validate(), "custom_profile.max_key: 35 is less than 36")
}

func TestExcerptsAreWholeCharacters(t *testing.T) {
	require.Equal(t, strings.Repeat("é", 20)+"...", excerpt(strings.Repeat("é", 21)))
	require.Equal(t, "a"+strings.Repeat("é", 19)+"...", excerpt("a"+strings.Repeat("é", 21)))
	require.Equal(t, strings.Repeat("é", 20), excerpt(strings.Repeat("é", 20)))
}
