package conformance

import (
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
)

// bank has charges. A charge belongs to one principal and can be refunded once.
type bank struct {
	mu       sync.Mutex
	owners   map[string]string // of the charges
	refunded map[string]bool
	repeats  bool // a charge can be refunded again and again
}

// inBank gives the lab charges and refunds.
func inBank(l *lab) *bank {
	b := &bank{owners: map[string]string{}, refunded: map[string]bool{}}
	shop := l.app
	l.app = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		one, two := reread(r)
		var in struct{ Account, Charge string }
		if err := json.NewDecoder(one.Body).Decode(&in); err != nil {
			http.Error(w, "no JSON", http.StatusBadRequest)
			return
		}
		b.mu.Lock()
		defer b.mu.Unlock()
		if r.URL.Path == "/short" { // a charge
			id := fmt.Sprintf("ch_%d", len(b.owners)+1)
			b.owners[id] = principal(r)
			w.WriteHeader(http.StatusCreated)
			fmt.Fprintf(w, `{"data":{"id":%q}}`, id)
			return
		}
		if b.owners[in.Charge] != principal(r) || b.refunded[in.Charge] && !b.repeats {
			http.Error(w, "no such charge, or refunded already", http.StatusUnprocessableEntity)
			return
		}
		b.refunded[in.Charge] = true
		shop.ServeHTTP(w, two)
	})
	l.describe = func(t *Target) {
		*t = Target{
			Name: t.Name, BaseURL: t.BaseURL, Principals: t.Principals, Effects: t.Effects, Key: t.Key,
			Operation: Operation{
				Method: "POST", Path: "/refunds",
				Body: `{"account":"{{case}}","charge":"{{charge}}","amount":{{number}}}`,
			},
			Setup: []Step{{
				Operation: Operation{Method: "POST", Path: "/short",
					Body: `{"account":"{{case}}","nonce":"{{uuid}}","at":"{{now}}"}`},
				Capture: map[string]string{"charge": "data.id"},
			}},
		}
	}
	return b
}

func TestRefundHasAFreshCharge(t *testing.T) {
	t.Parallel() // runs spend their time waiting
	l := newLab(t)
	inBank(l)
	report, err := Run(t.Context(), l.start().target())
	require.NoError(t, err)
	require.Empty(t, broken(report), texts(report))
	require.Zero(t, report.ExitCode(true), texts(report))
	for _, slug := range []string{slugEffect, slugMismatch, "key-case", "scope-principal", "scope-undetectable",
		"late-replay"} {
		res, _ := report.Result(slug)
		require.Equal(t, Pass, res.Verdict, "%s: %s", slug, res.Reason)
	}
}

func TestAdvertisedRetentionIsReadWithoutASetup(t *testing.T) {
	l := newLab(t)
	bank := inBank(l)
	target := l.start().target()
	target.Advertised = &Advertised{
		Operation: Operation{Method: "GET", Path: "/config?nonce={{uuid}}",
			Headers: map[string]string{"X-Now": "{{now}}"}},
		Member: "idempotency-key-lifetime",
	}
	r := &runner{target: target}
	require.NoError(t, r.prepare(nil))
	r.learnLifetime(t.Context())
	require.Equal(t, Duration(24*time.Hour), r.target.Retention)
	require.Empty(t, bank.owners)

	report, err := Run(t.Context(), target, Only("lifetime-advertised"))
	require.NoError(t, err)
	res, _ := report.Result("lifetime-advertised")
	require.Equal(t, Pass, res.Verdict, texts(report))

	target.Advertised.Path = "/config?of={{charge}}"
	require.ErrorContains(t, target.Validate(), "advertised.path: there is no variable {{charge}} in this template")
}

func TestRefundThatRunsTwiceIsFound(t *testing.T) {
	l := newLab(t)
	inBank(l).repeats = true
	l.front = rerouting(func(_ http.ResponseWriter, r *http.Request, _ string, _ []byte) bool {
		r.Header.Set("Idempotency-Key", uuid.NewString())
		return false
	})
	report, err := Run(t.Context(), l.start().target(), Only(slugEffect))
	require.NoError(t, err)
	require.Contains(t, broken(report), slugEffect)
	res, _ := report.Result(slugEffect)
	require.Equal(t, "setup 1", res.Exchanges[0].Label)
	require.Empty(t, res.Curl, "a shell line captures nothing")
}

func TestSetupThatFailsIsAWrongDescription(t *testing.T) {
	for name, c := range map[string]struct {
		change func(s *Step)
		want   string
	}{
		"not found":     {func(s *Step) { s.Path = "/missing" }, "/missing: the response was 404"},
		"nothing there": {func(s *Step) { s.Capture["charge"] = "id" }, `the response has nothing at "id"`},
		"not a text":    {func(s *Step) { s.Capture["charge"] = "data" }, "neither a text nor a number nor a boolean"},
		"taken name": {func(s *Step) { s.Capture["uuid"] = "data.id" },
			"setup.0.capture: there is a variable {{uuid}} already"},
		"no name": {func(s *Step) { s.Capture["a-b"] = "data.id" }, `"a-b" is no name of a variable`},
		"missing name": {func(s *Step) { s.Capture = nil },
			"operation.body: there is no variable {{charge}} in this template"},
		"used too early": {func(s *Step) { s.Body = "{{charge}}" },
			"setup.0.body: there is no variable {{charge}} in this template"},
		"its own key": {func(s *Step) { s.Headers = map[string]string{"idempotency-key": "k"} },
			"setup.0.headers: the header Idempotency-Key"},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t)
			inBank(l)
			target := l.start().target()
			c.change(&target.Setup[0])
			report, err := Run(t.Context(), target, Only(slugEffect))
			require.ErrorIs(t, err, ErrConfig)
			require.ErrorContains(t, err, c.want)
			require.Equal(t, ExitConfig, report.ExitCode(false))
		})
	}
}
